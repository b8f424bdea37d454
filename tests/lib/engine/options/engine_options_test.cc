// The joined option list of an engine: its groups in order, and its values in the parts' structs.
#include "lib/engine/options/engine_options.h"

#include <doctest/doctest.h>

#include "lib/cli/config_file.h"
#include "lib/cli/options.h"

using namespace nvllm;

namespace {

struct Program {
    EngineConfig config;
    OptionSet options;

    Program() { options.add(engine_options(), config); }
    void set(const char* name, const std::string& text) {
        options.find(name)->set(std::vector<std::string>{text}, OptionOrigin::flag,
                                std::string("--") + name, ErrorKind::usage);
    }
};

}  // namespace

TEST_CASE("the parts' options stand in six groups, each in one piece") {
    const OptionList<EngineConfig> list = engine_options();
    std::vector<std::string> groups;
    for (const TypedOptionField& field : list.fields()) {
        if (groups.empty() || groups.back() != field.field.group) {
            groups.push_back(field.field.group);
        }
        CHECK(field.field.section == "engine");
    }
    CHECK(groups == std::vector<std::string>{"Model", "Compute", "Memory", "Scheduling",
                                             "Speculation", "Adapters", "Inspection"});
}

TEST_CASE("programs with several models have no option for one") {
    const size_t all = engine_options().fields().size();
    CHECK(engine_options(WithModel::no).fields().size() == all - 1);
    CHECK(engine_options().fields()[0].field.name == "model");
    CHECK(engine_options(WithModel::no).fields()[0].field.name == "revision");
}

TEST_CASE("an option sets the member of its part") {
    Program program;
    const EngineConfig& config = program.config;
    program.set("model", "folder");
    program.set("load-seed", "7");
    program.set("repack-cache", "packed");
    program.set("batch-invariant", "true");
    program.set("threads", "3");
    program.set("numa", "isolate");
    program.set("memory-limit", "3GiB");
    program.set("swap-space", "4");
    program.set("block-size", "16KB");
    program.set("eviction-policy", "cost");
    program.set("defrag-threshold", "0.5");
    program.set("max-num-seqs", "5");
    program.set("prefill-chunk-size", "64");
    program.set("preemption-mode", "swap");
    program.set("inspect-socket", "a.sock");
    CHECK(config.model.name == "folder");
    CHECK(config.model.load.seed == 7);
    CHECK(config.model.load.repack_cache == "packed");
    CHECK(config.compute.worker.batch_invariant);
    CHECK(config.compute.placement.num_threads == 3);
    CHECK(config.compute.placement.numa == NumaMode::isolate);
    CHECK(config.memory.limit_bytes == uint64_t{3} << 30);
    CHECK(config.memory.swap_bytes == uint64_t{4} << 30);
    CHECK(config.kv_cache.block_size.bytes == 16000);
    CHECK(config.kv_cache.cache.eviction == "cost");
    CHECK(config.scheduling.scheduler.defrag_threshold == 0.5);
    CHECK(config.scheduling.scheduler.max_num_seqs == 5);
    CHECK(config.scheduling.scheduler.chunk_size == 64);
    CHECK(config.scheduling.scheduler.preemption_mode == PreemptionMode::swap);
    CHECK(config.inspection.socket == "a.sock");
}

TEST_CASE("a configuration file sets options of parts under the section of the engine") {
    Program program;
    apply_config_text(program.options, "engine:\n  max-num-seqs: 9\n  kv-cache-dtype: fp8\n",
                      "a.yaml");
    CHECK(program.config.scheduling.scheduler.max_num_seqs == 9);
    CHECK(program.config.kv_cache.dtype == "fp8");
}
