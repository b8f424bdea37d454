// Bytes as a snapshot: what is taken can be shown in every view and written again.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/error.h"
#include "lib/schedule/snapshot_json.h"
#include "lib/view/cache_report.h"
#include "lib/view/request_report.h"
#include "lib/view/tree_report.h"
#include "lib/view/watch_screen.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace nvllm;
    try {
        const std::string text(reinterpret_cast<const char*>(data), size);
        const Snapshot snapshot = snapshot_from_json(text, "input");
        snapshot_from_json(snapshot_to_json(snapshot), "written");
        view::cache_text(snapshot, false);
        view::cache_json(snapshot);
        view::cache_svg(snapshot);
        view::requests_text(snapshot);
        view::requests_json(snapshot);
        view::watch_lines(snapshot, nullptr, 80, 24);
        for (const SequenceSnapshot& sequence : snapshot.sequences) {
            view::table_text(snapshot, sequence.request);
        }
        if (!snapshot.has_tree) return 0;
        view::tree_text(snapshot);
        view::tree_json(snapshot);
        view::tree_svg(snapshot);
    } catch (const Error&) {
    }
    return 0;
}
