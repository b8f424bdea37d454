// nvllm-inspect cache, table, tree, requests, adapters: views of a dump or of a running engine.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/cli/main_guard.h"
#include "lib/plot/svg_picture.h"
#include "lib/view/adapter_report.h"
#include "lib/view/cache_report.h"
#include "lib/view/request_report.h"
#include "lib/view/snapshot_source.h"
#include "lib/view/tree_report.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

constexpr const char* kExamples =
    "  nvllm-run -p \"Once upon a time\" --inspect-dump dump.json\n"
    "  nvllm-inspect cache dump.json\n"
    "  nvllm-inspect requests --socket /run/user/1000/nvllm.sock --json\n";

struct ViewOptions {
    std::optional<uint64_t> request;
    std::optional<std::filesystem::path> file;
    std::optional<std::filesystem::path> socket;
    bool json = false;
    bool all = false;
    std::optional<std::string> svg;
};

// What one command is made of; null: it has none.
struct View {
    const char* name;
    const char* summary;
    bool takes_request;
    std::string (*text)(const Snapshot&, const ViewOptions&);
    nlohmann::ordered_json (*json)(const Snapshot&, const ViewOptions&);
    std::string (*svg)(const Snapshot&);
    SnapshotDetail detail;
};

OptionList<ViewOptions> view_options(const View& view) {
    OptionList<ViewOptions> list("inspect");
    if (view.takes_request) {
        list.add("request", &ViewOptions::request, "Number of the request.", value_name("REQUEST"),
                 positional());
    }
    list.add("dump", &ViewOptions::file, "What nvllm-run --inspect-dump wrote.", value_name("FILE"),
             positional());
    list.add("socket", &ViewOptions::socket, "Look at the engine with this --inspect-socket.",
             value_name("PATH"));
    list.add("json", &ViewOptions::json,
             fmt::format("One JSON object, schema nvllm-inspect.{}/1.", view.name));
    if (std::string_view(view.name) == "cache") {
        list.add("all", &ViewOptions::all, "A letter for every block, however many there are.");
    }
    if (view.svg != nullptr) {
        list.add("svg", &ViewOptions::svg, "Write a picture too.", value_name("FILE"));
    }
    return list;
}

Snapshot take(const ViewOptions& flags, const View& view) {
    if (flags.file.has_value() == flags.socket.has_value()) {
        throw Error(ErrorKind::usage, "name either a dump file or --socket PATH");
    }
    if (flags.file) return view::read_snapshot_file(*flags.file);
    return view::LiveSnapshots(*flags.socket).next(view.detail);
}

int run_view(const View& view, const Invocation& invocation) {
    ViewOptions flags;
    const auto list = view_options(view);
    OptionSet options;
    options.add(list, flags);
    if (answered(invocation, options)) return 0;
    if (view.takes_request && !flags.request) {
        throw Error(ErrorKind::usage, "which request? 'requests' lists them");
    }
    const Snapshot snapshot = take(flags, view);
    if (flags.svg) write_file(*flags.svg, view.svg(snapshot));
    write_output(flags.json ? write_json(view.json(snapshot, flags)) + "\n"
                            : view.text(snapshot, flags));
    return 0;
}

Command command_of(const View& view) {
    return {view.name, view.summary,
            [view](const Invocation& invocation) { return run_view(view, invocation); }, kExamples};
}

}  // namespace

Command cache_command() {
    return command_of(
        {"cache", "Shows the blocks of the key-value cache and who holds them.", false,
         [](const Snapshot& snapshot, const ViewOptions& flags) {
             return view::cache_text(snapshot, flags.all);
         },
         [](const Snapshot& snapshot, const ViewOptions&) { return view::cache_json(snapshot); },
         view::cache_svg, SnapshotDetail::without_tree});
}

Command table_command() {
    return command_of({"table", "Shows the block tables of a request, entry by entry.", true,
                       [](const Snapshot& snapshot, const ViewOptions& flags) {
                           return view::table_text(snapshot, *flags.request);
                       },
                       [](const Snapshot& snapshot, const ViewOptions& flags) {
                           return view::table_json(snapshot, *flags.request);
                       },
                       nullptr, SnapshotDetail::without_tree});
}

Command tree_command() {
    return command_of(
        {"tree", "Shows the beginnings of prompts that the cache knows.", false,
         [](const Snapshot& snapshot, const ViewOptions&) { return view::tree_text(snapshot); },
         [](const Snapshot& snapshot, const ViewOptions&) { return view::tree_json(snapshot); },
         view::tree_svg, SnapshotDetail::full});
}

Command requests_command() {
    return command_of(
        {"requests", "Lists the requests of an engine and why each waits.", false,
         [](const Snapshot& snapshot, const ViewOptions&) { return view::requests_text(snapshot); },
         [](const Snapshot& snapshot, const ViewOptions&) { return view::requests_json(snapshot); },
         nullptr, SnapshotDetail::without_tree});
}

Command adapters_command() {
    return command_of(
        {"adapters", "Lists the adapters of an engine and where each is.", false,
         [](const Snapshot& snapshot, const ViewOptions&) { return view::adapters_text(snapshot); },
         [](const Snapshot& snapshot, const ViewOptions&) { return view::adapters_json(snapshot); },
         nullptr, SnapshotDetail::without_tree});
}

}  // namespace nvllm::inspect
