// A disk that is full at any write: nothing half appears, and the run goes on to the same bytes.
#include <doctest/doctest.h>

#include <map>

#include "lib/base/fault_points.h"
#include "lib/base/file.h"
#include "lib/quantize/pipeline.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/folder.h"
#include "tests/sanitized.h"

namespace nvllm::quantize {
namespace {

namespace fs = std::filesystem;

struct NoFaults {
    ~NoFaults() { set_fault_points(""); }
};

// As nvllm-quantize does it.
void make_output(const PipelineOptions& options, const RecipeFlags& flags) {
    Pipeline pipeline(options, recipe_from_flags(flags));
    const PipelineResult result = pipeline.run({});
    write_report(pipeline.report(result), pipeline.unpublished());
    pipeline.publish();
}

std::map<std::string, std::string> contents(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        files[entry.path().filename().string()] = read_file(entry.path());
    }
    return files;
}

// Runs with the disk full at each write in turn, from `first` to at most `last` by `step`, and on
// from there. Returns the last one that there was, or at most `step` - 1 before it.
int64_t walk(const PipelineOptions& options, const RecipeFlags& flags, int64_t first, int64_t last,
             int64_t step = 1) {
    const NoFaults at_end;
    const fs::path folder = options.output.parent_path();
    make_output(options, flags);
    const auto whole = contents(options.output);
    const auto source = contents(options.model);
    int64_t write = first;
    for (; write <= last; write += step) {
        CAPTURE(write);
        fs::remove_all(options.output);
        set_fault_points("file.write:" + std::to_string(write) + "=errno=28");
        try {
            make_output(options, flags);
            break;  // there are no more writes
        } catch (const Error& error) {
            const std::string said = error.what();
            CHECK(error.kind() == ErrorKind::io);
            CHECK(said.starts_with(folder.string()));
            CHECK(said.find("No space left on device") != std::string::npos);
        }
        CHECK_FALSE(fs::exists(options.output));
        set_fault_points("");
        PipelineOptions again = options;
        again.interrupted = InterruptedRun::resumed;
        make_output(again, flags);
        CHECK(contents(options.output) == whole);
        CHECK_FALSE(fs::exists(options.output.string() + ".partial"));
    }
    CHECK(contents(options.model) == source);
    return write - step;
}

TEST_CASE("a disk that is full at any write") {
    const test::Folder folder;
    const fs::path fixtures = fs::path(NVLLM_SOURCE_DIR) / "tests/fixtures/families";
    PipelineOptions options;
    options.model = folder.path() / "model";
    fs::copy(fixtures / "llama", options.model);
    write_file(options.model / "LICENSE", "a companion");
    options.output = folder.path() / "out";
    options.num_threads = 2;
    options.shard_bytes = 40'000;
    RecipeFlags flags;
    flags.methods = {"rtn"};
    flags.scheme = "W8A16";
    flags.group_size = "16";
    const int64_t count = walk(options, flags, 1, 1000, test::kSanitized ? 7 : 1);
    // The journal, a file for each block, several shards, their index, what is beside them.
    CHECK(count > 50);
    CHECK(count < 1000);
    MESSAGE(count << " writes");
}

TEST_CASE("a disk without room for activations") {
    const test::Folder folder;
    PipelineOptions options;
    options.model = fs::path(NVLLM_SOURCE_DIR) / "models" / "demo";
    options.output = folder.path() / "out";
    options.calibration.num_samples = 2;
    options.calibration.max_seq_length = 600;
    options.num_threads = 2;
    options.memory_limit_bytes = 0;
    RecipeFlags flags;
    // The folder and four calls for what says whose it is; then the activations.
    CHECK(walk(options, flags, 6, 6) == 6);
    const NoFaults at_end;
    fs::remove_all(options.output);
    set_fault_points("file.write:6=errno=28");
    CHECK(test::error_of(ErrorKind::io, [&] {
              make_output(options, flags);
          }).find("--offload-dir") != std::string::npos);
}

}  // namespace
}  // namespace nvllm::quantize
