// Sections that programs share: keys of other programs, and faults.
#include "lib/cli/config_sections.h"

#include <doctest/doctest.h>

#include "lib/cli/config_file.h"
#include "tests/error_of.h"

using namespace nvllm;

namespace {

ConfigSections some_sections() {
    return {.keys = {{"model", "name", "served-model-name", "model"},
                     {"model", "path", "model"},
                     {"model", "precision", "dtype"},
                     {"gpu", "memory_limit", "memory-limit"},
                     {"scheduler", "batch_size", "max-num-seqs"},
                     {"scheduler", "policy", "scheduling-policy"},
                     {"cache", "max_blocks", "max-blocks"},
                     {"api", "port", "port"},
                     {"api", "streaming", "streaming"},
                     {"monitoring", "alert_rules", "alert-rules"}},
            .options = {{"api", {"host", "port", "api-key-file", "allow-unauthenticated"}}},
            .other_options = {"folder"}};
}

// A program with some of the options, one of which stands in a section of its own.
struct Program {
    std::string model;
    int32_t max_num_seqs = 8;
    int32_t port = 1;
    OptionSet options;

    Program() {
        OptionList<Program> list("engine");
        list.add("model", &Program::model, "");
        list.add("max-num-seqs", &Program::max_num_seqs, "", alias("sequences"), range(1, 100));
        list.add("port", &Program::port, "");
        options.add(list, *this);
        options.share(some_sections());
    }

    void read(const std::string& text) { apply_config_text(options, text, "a.yaml"); }
};

std::string fault(const std::string& text) {
    Program program;
    return test::error_of(ErrorKind::bad_config, [&] { program.read(text); });
}

}  // namespace

TEST_CASE("keys of the shared sections set the options that a program has, and no others") {
    Program program;
    program.read(
        "model: {path: folder, name: served, precision: bf16}\n"
        "gpu:\n  memory_limit: 4GiB\n"
        "scheduler:\n  batch-size: 5\n  policy: sjf\n"
        "cache:\n"
        "api: {port: 7, host: 0.0.0.0, api-key-file: keys.txt, streaming: no}\n"
        "monitoring: {alert_rules: [a > 1, b < 2]}\n");
    CHECK(program.model == "folder");
    CHECK(program.max_num_seqs == 5);
    CHECK(program.port == 7);
    CHECK(program.options.find("max-num-seqs")->where() == "a.yaml:5");
}

TEST_CASE("a name without a path is what is looked up") {
    Program program;
    program.read("model:\n  name: org/name\n");
    CHECK(program.model == "org/name");
    Program other;
    other.read("model: folder\n");
    CHECK(other.model == "folder");
}

TEST_CASE("options keep their own names and sections beside the shared ones") {
    Program program;
    program.read("engine: {max-num-seqs: 3}\nport: 9\n");
    CHECK(program.max_num_seqs == 3);
    CHECK(program.port == 9);
}

TEST_CASE("a key that no program knows is refused with the nearest one of its section") {
    CHECK(fault("scheduler:\n  batch_sise: 3\n") ==
          "a.yaml:2: unknown key 'batch_sise' in section 'scheduler'; did you mean 'batch_size'?");
    CHECK(fault("api: {prot: 3}\n") ==
          "a.yaml:1: unknown key 'prot' in section 'api'; did you mean 'port'?");
    CHECK(fault("api: {alow-unauthenticated: yes}\n").find("'allow-unauthenticated'") !=
          std::string::npos);
    CHECK(fault("monitoring: {zzzzzzzzzzzz: 1}\n") ==
          "a.yaml:1: unknown key 'zzzzzzzzzzzz' in section 'monitoring'");
    CHECK(fault("shceduler: {batch_size: 3}\n") ==
          "a.yaml:1: unknown key 'shceduler'; did you mean 'scheduler'?");
    CHECK(fault("cache: 5\n") == "a.yaml:1: 'cache' is a section: its keys belong below it");
    CHECK(fault("cache: {max-num-seqs: 5}\n") ==
          "a.yaml:1: 'max-num-seqs' does not belong into section 'cache'");
    CHECK(fault("batch_size: 5\n").find("unknown key 'batch_size'") != std::string::npos);
}

TEST_CASE("one setting may stand in a file once, whatever it is called") {
    CHECK(fault("max-num-seqs: 3\nscheduler: {batch_size: 4}\n") ==
          "a.yaml:2: 'batch_size' was already set in line 1");
    CHECK(fault("cache: {max_blocks: 3}\ncache: {max-blocks: 4}\n").find("already set") !=
          std::string::npos);
    CHECK(fault("cache: {max_blocks: 3, max-blocks: 4}\n").find("already set") !=
          std::string::npos);
    CHECK(fault("scheduler: {batch_size: 0}\n") ==
          "a.yaml:1: max-num-seqs: '0' is not a whole number from 1 to 100");
}

TEST_CASE("without shared sections only an option's own section is read") {
    Program program;
    program.options.share({});
    program.read("engine: {max-num-seqs: 3}\n");
    CHECK(program.max_num_seqs == 3);
    CHECK(test::error_of(ErrorKind::bad_config, [&] {
              program.read("scheduler: {batch_size: 3}\n");
          }).starts_with("a.yaml:1: unknown key 'scheduler'"));
}

TEST_CASE("the table says which options some program has") {
    const ConfigSections sections = some_sections();
    CHECK(sections.knows_option("api-key-file"));
    CHECK(sections.knows_option("memory-limit"));
    CHECK(sections.knows_option("folder"));
    CHECK_FALSE(sections.knows_option("memory_limit"));
    CHECK_FALSE(sections.knows_option("nothing"));
    CHECK(sections.lists_option("api", "api_key_file"));
    CHECK_FALSE(sections.lists_option("model", "host"));
    CHECK(sections.option_of("model", "name", true) == "served-model-name");
    CHECK(sections.option_of("model", "name", false) == "model");
    CHECK(sections.option_of("scheduler", "batch-size", false) == "max-num-seqs");
    CHECK(sections.option_of("scheduler", "port", false).empty());
    CHECK(sections.keys_of("cache") == std::vector<std::string>{"max_blocks"});
}
