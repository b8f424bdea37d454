// nvllm-inspect list: the models in the Hugging Face cache.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/base/units.h"
#include "lib/checkpoint/cached_models.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/known_models.h"
#include "lib/view/text_table.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

struct ListOptions {
    std::string cache;
    bool json = false;
};

OptionList<ListOptions> list_options() {
    OptionList<ListOptions> list("inspect");
    list.add("download-dir", &ListOptions::cache, "Folder of the Hugging Face cache.",
             value_name("DIR"), default_text("HF_HUB_CACHE, or what HF_HOME says"));
    list.add("json", &ListOptions::json, "One JSON object, schema nvllm-inspect.list/1.");
    return list;
}

// Why the model does not run; empty: it does.
std::string obstacle_of(const CachedModel& model) {
    if (model.directory.empty()) return "nothing of it was downloaded in full";
    try {
        const auto obstacle = find_obstacle(model.directory);
        return obstacle ? obstacle->message : "";
    } catch (const Error& error) {
        return error.what();
    }
}

std::string list_text(const std::vector<CachedModel>& models, const std::filesystem::path& cache) {
    view::TextSheet sheet;
    sheet.line("models in " + cache.string());
    std::vector<std::vector<std::string>> rows;
    for (const CachedModel& model : models) {
        const std::string obstacle = obstacle_of(model);
        rows.push_back({view::printable(model.name), describe_bytes(model.bytes),
                        obstacle.empty() ? "runs" : "does not run: " + view::printable(obstacle)});
        if (model.unfinished_bytes > 0) {
            rows.push_back({"", describe_bytes(model.unfinished_bytes),
                            "of downloads that were not finished"});
        }
    }
    if (!rows.empty()) sheet.table(rows, "<><");
    if (rows.empty()) sheet.line("none yet: 'hf download org/name' fetches one");
    return sheet.text();
}

nlohmann::ordered_json list_json(const std::vector<CachedModel>& models,
                                 const std::filesystem::path& cache) {
    auto rows = nlohmann::ordered_json::array();
    for (const CachedModel& model : models) {
        const std::string obstacle = obstacle_of(model);
        rows.push_back({{"name", model.name},
                        {"directory", model.directory.string()},
                        {"bytes", model.bytes},
                        {"unfinished_bytes", model.unfinished_bytes},
                        {"runs", obstacle.empty()},
                        {"obstacle", obstacle}});
    }
    return {{"schema", "nvllm-inspect.list/1"}, {"cache", cache.string()}, {"models", rows}};
}

int inspect_list(const Invocation& invocation) {
    ListOptions flags;
    const auto list = list_options();
    OptionSet options;
    options.add(list, flags);
    if (answered(invocation, options)) return 0;
    const std::filesystem::path cache =
        flags.cache.empty() ? hub_cache_directory() : std::filesystem::path(flags.cache);
    const std::vector<CachedModel> models = cached_models(cache);
    write_output(flags.json ? write_json(list_json(models, cache)) + "\n"
                            : list_text(models, cache));
    return 0;
}

}  // namespace

Command list_command() {
    return {"list", "Lists the models in the Hugging Face cache: size, and whether they run.",
            inspect_list, "  nvllm-inspect list --json\n"};
}

}  // namespace nvllm::inspect
