// The dump's file.
#include "tools/run/inspect_dump.h"

#include <fmt/format.h>

#include <cstdio>

#include "lib/engine/inspection.h"

namespace nvllm::run {

InspectDump::InspectDump(Engine& engine, const std::filesystem::path& file,
                         std::optional<uint64_t> step)
    : engine_(engine), file_(file), step_(step), stream_(file) {
    if (!stream_) throw Error(ErrorKind::cannot_create, file.string() + ": cannot be written");
    if (!step) return;
    engine_.set_snapshot_listener(*step, [this](const Snapshot& snapshot) { write(snapshot); });
}

void InspectDump::finish() {
    if (!written_) {
        if (step_) {
            fmt::print(stderr,
                       "nvllm-run: the batch ended before step {}: {} shows its end instead\n",
                       *step_, file_.string());
        }
        write(engine_.snapshot(SnapshotDetail::full).get());
    }
    stream_.close();
    if (!stream_) throw Error(ErrorKind::io, file_.string() + ": cannot be written in full");
}

void InspectDump::write(const Snapshot& snapshot) {
    stream_ << dump_text(snapshot);
    written_ = true;
}

}  // namespace nvllm::run
