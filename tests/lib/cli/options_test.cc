// Field lists: values, ranges, printing, the environment and files.
#include "lib/cli/options.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "lib/cli/command_line.h"
#include "lib/cli/config_file.h"
#include "tests/error_of.h"
#include "tests/lib/base/sample_options.h"

using namespace nvllm;
using namespace nvllm::test;

namespace {

EnvironmentLookup environment_of(std::map<std::string, std::string> variables) {
    return [variables](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    };
}

std::string file_error(const std::string& text) {
    SampleOptions sample;
    return test::error_of(ErrorKind::bad_config,
                          [&] { apply_config_text(sample.options, text, "a.yaml"); });
}

struct Inner {
    int32_t depth = 3;
    std::optional<int32_t> width;
};
struct Outer {
    std::string name = "a";
    Inner inner;
};
struct Outermost {
    Outer outer;
};

OptionList<Inner> inner_options() {
    OptionList<Inner> list("inner");
    list.group("Inside");
    list.add("depth", &Inner::depth, "Depth.", range(1, 9));
    list.add("width", &Inner::width, "Width.");
    return list;
}

OptionList<Outer> outer_options() {
    OptionList<Outer> list("outer");
    list.group("Outside");
    list.add("name", &Outer::name, "Name.");
    list.include(&Outer::inner, inner_options());
    list.add("last", nested(&Outer::inner, &Inner::depth), "The same depth.");
    return list;
}

}  // namespace

TEST_CASE("a list includes the list of a member in its place") {
    const OptionList<Outer> list = outer_options();
    std::vector<std::string> shown;
    for (const TypedOptionField& field : list.fields()) {
        shown.push_back(field.field.group + " " + field.field.name);
        CHECK(field.field.section == "outer");
    }
    CHECK(shown ==
          std::vector<std::string>{"Outside name", "Inside depth", "Inside width", "Outside last"});
}

TEST_CASE("included and nested options set, show and check the member's member") {
    OptionList<Outermost> list("outermost");
    list.include(&Outermost::outer, outer_options());
    list.add("deep", nested(&Outermost::outer, &Outer::inner, &Inner::width), "Width again.");
    Outermost target;
    OptionSet options;
    options.add(list, target);
    const auto set = [&](const char* name, const char* text) {
        options.find(name)->set(std::vector<std::string>{text}, OptionOrigin::flag,
                                std::string("--") + name, ErrorKind::usage);
    };
    set("depth", "5");
    CHECK(target.outer.inner.depth == 5);
    CHECK(options.find("last")->texts() == std::vector<std::string>{"5"});
    CHECK(options.find("width")->texts().empty());
    set("deep", "8");
    CHECK(target.outer.inner.width == 8);
    CHECK(options.find("width")->texts() == std::vector<std::string>{"8"});
    CHECK(test::error_of(ErrorKind::usage, [&] { set("depth", "10"); }) ==
          "--depth: '10' is not a whole number from 1 to 9");
    CHECK(target.outer.inner.depth == 5);
}

TEST_CASE("sizes") {
    CHECK(parse_size("4096") == 4096);
    CHECK(parse_size("0") == 0);
    CHECK(parse_size("4GiB") == uint64_t{4} << 30);
    CHECK(parse_size("512MB") == 512000000);
    CHECK(parse_size("16KB") == 16000);
    CHECK(parse_size("16kib") == 16384);
    CHECK(parse_size("32k") == 32000);
    CHECK(parse_size("32K") == 32768);
    CHECK(parse_size("1m") == 1000000);
    CHECK(parse_size("1T") == uint64_t{1} << 40);
    CHECK(parse_size("25.6k") == 25600);
    CHECK(parse_size("0.5GiB") == 536870912);
    CHECK(parse_size("12B") == 12);
    CHECK(parse_size("18446744073709551615") == UINT64_MAX);
    for (const char* bad : {"", "k", "4x", "-1", "1.5", "4 GiB", "1e3", "1kk", "GiB",
                            "18446744073709551616", "99999999999T", "1..5k", "+5", "4GiBs"}) {
        CAPTURE(bad);
        CHECK(!parse_size(bad));
    }
}

TEST_CASE("numbers and truth values") {
    CHECK(parse_integer<int32_t>("-7") == -7);
    CHECK(parse_integer<int32_t>("+7") == 7);
    CHECK(parse_integer<int32_t>("012") == 12);
    CHECK(parse_integer<uint64_t>("18446744073709551615") == UINT64_MAX);
    for (const char* bad : {"", " 1", "1 ", "1.0", "0x10", "2147483648", "one", "+-1", "--1"}) {
        CAPTURE(bad);
        CHECK(!parse_integer<int32_t>(bad));
    }
    CHECK(parse_number("1e-3") == 0.001);
    CHECK(parse_number("-.5") == -0.5);
    for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "1,5", "0.5x"}) {
        CAPTURE(bad);
        CHECK(!parse_number(bad));
    }
    CHECK(parse_boolean("TRUE") == true);
    CHECK(parse_boolean("off") == false);
    CHECK(!parse_boolean("maybe"));
    CHECK(format_value(0.1f) == "0.1");
    CHECK(format_value(0.1) == "0.1");
    CHECK(format_bytes(uint64_t{3} << 30) == "3GiB");
    CHECK(format_bytes(1000) == "1000");
    CHECK(format_bytes(0) == "0");
}

TEST_CASE("edit distance and the nearest name") {
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("top-k", "top-p") == 1);
    CHECK(edit_distance("tempreature", "temperature") == 1);
    CHECK(edit_distance("kitten", "sitting") == 3);
    const std::vector<std::string> names = {"max-num-seqs", "top-k", "seed"};
    CHECK(nearest_name("max-num-seq", names) == "max-num-seqs");
    CHECK(nearest_name("sed", names) == "seed");
    CHECK(!nearest_name("completely-else", names));
}

TEST_CASE("every kind of member is set, shown and refused") {
    SampleOptions sample;
    const auto set = [&](const char* name, std::vector<std::string> texts) {
        sample.options.find(name)->set(texts, OptionOrigin::flag, std::string("--") + name,
                                       ErrorKind::usage);
    };
    const auto refusal = [&](const char* name, std::vector<std::string> texts) {
        return test::error_of(ErrorKind::usage, [&] { set(name, texts); });
    };
    set("max-num-seqs", {"17"});
    CHECK(sample.engine.max_num_seqs == 17);
    set("max-model-len", {"32k"});
    CHECK(sample.engine.max_model_len == 32000);
    set("cache-bytes", {"4GiB"});
    CHECK(sample.engine.cache_bytes == uint64_t{4} << 30);
    CHECK(sample.options.find("cache-bytes")->texts() == std::vector<std::string>{"4GiB"});
    set("dtype", {"bfloat16"});
    CHECK(sample.engine.dtype == SampleDtype::bfloat16);
    set("policy", {"random"});
    CHECK(sample.engine.policy == "random");
    set("temperature", {"0.25"});
    CHECK(sample.sampling.temperature == 0.25f);
    set("stop", {"a", ""});
    CHECK(sample.sampling.stop == std::vector<std::string>{"a", ""});
    set("stop-token-ids", {"5", "6"});
    CHECK(sample.sampling.stop_token_ids == std::vector<int32_t>{5, 6});
    set("seed", {"18446744073709551615"});
    CHECK(sample.sampling.seed == UINT64_MAX);

    CHECK(refusal("max-num-seqs", {"0"}) ==
          "--max-num-seqs: '0' is not a whole number from 1 to 4096");
    CHECK(refusal("max-num-seqs", {"many"}).find("'many' is not a whole number") !=
          std::string::npos);
    CHECK(refusal("temperature", {"2.5"}) == "--temperature: '2.5' is not a number from 0 to 2");
    CHECK(refusal("dtype", {"int3"}) == "--dtype: 'int3' is not one of auto, float32, bfloat16");
    CHECK(refusal("policy", {"lifo"}) == "--policy: 'lifo' is not one of fcfs, priority");
    CHECK(refusal("cache-bytes", {"1KiB"}) ==
          "--cache-bytes: '1KiB' is not a size such as 512MiB or 4GiB, at least 1MiB");
    CHECK(refusal("stop-token-ids", {"5", "x"}).find("'x'") != std::string::npos);
    CHECK(sample.sampling.stop_token_ids == std::vector<int32_t>{5, 6});
    CHECK(sample.engine.max_num_seqs == 17);
}

TEST_CASE("environment variables are named after options and faults after variables") {
    SampleOptions sample;
    apply_environment(sample.options, environment_of({{"NVLLM_MAX_NUM_SEQS", "9"},
                                                      {"NVLLM_STOP", "a,b"},
                                                      {"NVLLM_ECHO", "true"},
                                                      {"NVLLM_POLICY", ""}}));
    CHECK(sample.engine.max_num_seqs == 9);
    CHECK(sample.sampling.stop == std::vector<std::string>{"a", "b"});
    CHECK(sample.sampling.echo);
    CHECK(sample.engine.policy == "fcfs");
    CHECK(sample.options.find("echo")->where() == "NVLLM_ECHO");
    CHECK(test::error_of(ErrorKind::bad_config, [&] {
              apply_environment(sample.options, environment_of({{"NVLLM_MAX_NUM_SEQS", "-3"}}));
          }) == "NVLLM_MAX_NUM_SEQS: '-3' is not a whole number from 1 to 4096");
}

TEST_CASE("a configuration file sets options by name, alias and section") {
    SampleOptions sample;
    apply_config_text(sample.options,
                      "# comment\n"
                      "max_num_seqs: 8\n"
                      "predict: 40\n"
                      "sampling:\n"
                      "  temperature: 0.5\n"
                      "  stop: [\"\\n\", yes, 012]\n"
                      "  echo: on\n"
                      "max-model-len: ~\n"
                      "cache-bytes: 2GiB\n",
                      "a.yaml");
    CHECK(sample.engine.max_num_seqs == 8);
    CHECK(sample.sampling.max_tokens == 40);
    CHECK(sample.sampling.temperature == 0.5f);
    CHECK(sample.sampling.stop == std::vector<std::string>{"\n", "yes", "012"});
    CHECK(sample.sampling.echo);
    CHECK(!sample.engine.max_model_len);
    CHECK(sample.options.find("temperature")->origin() == OptionOrigin::file);
    CHECK(sample.options.find("temperature")->where() == "a.yaml:5");
}

TEST_CASE("one value stands for a list of one, and JSON is YAML") {
    SampleOptions sample;
    apply_config_text(sample.options, "{\"stop\": \"x\", \"max-num-seqs\": 3}", "a.json");
    CHECK(sample.sampling.stop == std::vector<std::string>{"x"});
    CHECK(sample.engine.max_num_seqs == 3);
    apply_config_text(sample.options, "", "empty.yaml");
    apply_config_text(sample.options, "# nothing\n", "empty.yaml");
}

TEST_CASE("faults of a configuration file name file, line, key, value and range") {
    CHECK(file_error("temperature: 1\nmax-num-seq: 3\n") ==
          "a.yaml:2: unknown key 'max-num-seq'; did you mean 'max-num-seqs'?");
    CHECK(file_error("zzzzzzzz: 3\n") == "a.yaml:1: unknown key 'zzzzzzzz'");
    CHECK(file_error("\nmax-num-seqs: 0\n") ==
          "a.yaml:2: max-num-seqs: '0' is not a whole number from 1 to 4096");
    CHECK(file_error("max-num-seqs: [1, 2]\n") ==
          "a.yaml:1: 'max-num-seqs' is a list; expected a whole number from 1 to 4096");
    CHECK(file_error("max-num-seqs: {a: 1}\n").find("is a mapping") != std::string::npos);
    CHECK(file_error("stop: [[a]]\n").find("not a plain value") != std::string::npos);
    CHECK(file_error("temperature: 1\nechoo: 1\ntemperature: 1\n").find("a.yaml:2:") == 0);
    CHECK(file_error("temperature: 1\n\ntemperature: 2\n") ==
          "a.yaml:3: 'temperature' was already set in line 1");
    CHECK(file_error("max-tokens: 1\nn-predict: 2\n").find("already set in line 1") !=
          std::string::npos);
    CHECK(file_error("temperature: 1\nsampling:\n  temperature: 2\n").find("already set") !=
          std::string::npos);
    CHECK(file_error("sampling: {seed: 1}\nsampling: {echo: 1}\n").find("already set") !=
          std::string::npos);
    CHECK(file_error("engine:\n  temperature: 1\n") ==
          "a.yaml:2: 'temperature' does not belong into section 'engine'");
    CHECK(file_error("- a\n- b\n").find("expected one mapping") != std::string::npos);
    CHECK(file_error("seed: 1\n---\nseed: 2\n").find("expected one mapping") != std::string::npos);
    CHECK(file_error("seed: 1\nstop: [a\n").find("not valid YAML") != std::string::npos);
    CHECK(file_error("? [a]\n: 1\n").find("plain words") != std::string::npos);
    CHECK(file_error(std::string(100000, '[')).find("a.yaml") == 0);
    SampleOptions sample;
    CHECK(test::error_of(ErrorKind::not_found,
                         [&] { apply_config_file(sample.options, "/no/such.yaml"); }) != "");
}

TEST_CASE("a file of aliases that double each other ends quickly") {
    std::string bomb = "seed: &a0 [x, x]\n";
    for (int i = 1; i < 40; ++i) {
        bomb += fmt::format("k{0}: &a{0} [*a{1}, *a{1}]\n", i, i - 1);
    }
    CHECK(file_error(bomb).find("a.yaml:") == 0);
}

TEST_CASE("printed settings name origins and read back as they are") {
    SampleOptions sample;
    apply_config_text(sample.options, "stop: [\"a\\\"b\", \"é\\n\"]\ncache-bytes: 3GiB\nseed: 5\n",
                      "a.yaml");
    sample.options.find("model")->set(std::vector<std::string>{"x: y # z"}, OptionOrigin::flag,
                                      "--model", ErrorKind::usage);
    const std::string printed = print_as_yaml(sample.options);
    CHECK(printed.find("seed: 5  # file a.yaml:3\n") != std::string::npos);
    CHECK(printed.find("max-num-seqs: 256  # default\n") != std::string::npos);
    CHECK(printed.find("max-model-len: null  # default\n") != std::string::npos);
    CHECK(printed.find("# Sampling\n") != std::string::npos);
    CHECK(printed.find("model: \"x: y # z\"  # flag\n") != std::string::npos);
    SampleOptions again;
    apply_config_text(again.options, printed, "printed.yaml");
    CHECK(again.sampling.stop == sample.sampling.stop);
    CHECK(again.engine.cache_bytes == sample.engine.cache_bytes);
    CHECK(again.model == "x: y # z");
    CHECK(print_as_json(again.options) == print_as_json(sample.options));
    CHECK(print_as_json(sample.options).find("\"max-model-len\": null") != std::string::npos);
}

TEST_CASE("two options of one name are our own mistake") {
    SampleOptions sample;
    OptionList<SampleEngine> twice("engine");
    twice.add("top_k", &SampleEngine::max_num_seqs, "");
    OptionList<SampleEngine> again("engine");
    again.add("predict", &SampleEngine::max_num_seqs, "");
    CHECK_THROWS_AS(sample.options.add(again, sample.engine), Error);
}

TEST_CASE("a size whose bare numbers are GiB") {
    struct Sizes {
        uint64_t swap = 0;
    };
    OptionList<Sizes> list("");
    list.add("swap", &Sizes::swap, "Memory.", counts_gib());
    const std::vector<std::pair<std::string, uint64_t>> cases = {{"4", uint64_t{4} << 30},
                                                                 {"0.5", uint64_t{1} << 29},
                                                                 {"0.001", 1073741},
                                                                 {"0", 0},
                                                                 {"4GiB", uint64_t{4} << 30},
                                                                 {"4B", 4},
                                                                 {"1000B", 1000},
                                                                 {"512MiB", uint64_t{1} << 29},
                                                                 {"4294967296", uint64_t{4} << 30}};
    for (const auto& [text, bytes] : cases) {
        CAPTURE(text);
        Sizes sizes;
        OptionSet options;
        options.add(list, sizes);
        options.all()[0].set(std::vector{text}, OptionOrigin::flag, "--swap", ErrorKind::usage);
        CHECK(sizes.swap == bytes);
        const bool is_bare = text == "4" || text.starts_with("0.");
        CHECK(options.take_notes().size() == (is_bare ? 1 : 0));
        // What is printed is read back as the same.
        const std::string printed = options.all()[0].texts()[0];
        options.all()[0].set(std::vector{printed}, OptionOrigin::flag, "--swap", ErrorKind::usage);
        CHECK(sizes.swap == bytes);
    }
    Sizes sizes;
    OptionSet options;
    options.add(list, sizes);
    options.all()[0].set(std::vector<std::string>{"4"}, OptionOrigin::flag, "--swap",
                         ErrorKind::usage);
    CHECK(options.take_notes() ==
          std::vector<std::string>{"--swap: 4 counts GiB, as in vLLM; in bytes that is 4B"});
    CHECK(options.take_notes().empty());
}

TEST_CASE("an empty value, and two of what is named once, are mistakes") {
    struct Named {
        std::string model;
        std::vector<std::string> names;
    };
    const auto read = [](const std::vector<std::string>& arguments) {
        OptionList<Named> list("");
        list.add("model", &Named::model, "A model.", short_name('m'), positional(), refuses_empty(),
                 named_once());
        list.add("name", &Named::names, "Its names.", takes_several());
        Named named;
        OptionSet options;
        options.add(list, named);
        resolve_settings(options, parse_command_line(arguments, options),
                         [](const std::string&) { return std::nullopt; });
        return named;
    };
    const auto fault = [&](const std::vector<std::string>& arguments) {
        return test::error_of(ErrorKind::usage, [&] { read(arguments); });
    };
    CHECK(fault({"-m", ""}) == "--model: is empty; a variable that is not set?");
    CHECK(fault({"-m", "a", "-m", "b"}) == "--model: one alone, and both 'a' and 'b' are given");
    CHECK(fault({"a", "-m", "b"}) == "--model: one alone, and both 'a' and 'b' are given");
    CHECK(read({"-m", "a", "-m", "a"}).model == "a");
    // Words behind a name are further names only when the model stands elsewhere.
    using Names = std::vector<std::string>;
    CHECK(read({"m", "--name", "a", "b"}).names == Names{"a", "b"});
    CHECK(read({"--name", "a", "b", "-m", "m"}).names == Names{"a", "b"});
    CHECK(read({"--name", "a", "m"}).names == Names{"a"});
    CHECK(read({"--name", "a", "m"}).model == "m");
    CHECK(read({"m", "--name", "[\"a\", \"b\"]"}).names == Names{"a", "b"});
    CHECK(read({"m", "--name", "[a]"}).names == Names{"[a]"});
}

TEST_CASE("variables that nearly name an option are noted, but for options of other programs") {
    SampleOptions sample;
    sample.options.share({.options = {{"api", {"port", "sed"}}}});
    const std::vector<std::string> variables = {
        "NVLLM_TEMPRATURE", "NVLLM_TEMPERATURE", "NVLLM_PORT",          "NVLLM_CONFIG",
        "TEMPRATURE",       "NVLLM_MAX_NUM_SEQ", "NVLLM_PREDICT",       "NVLLM_SEEED",
        "NVLLM_ISA",        "NVLLM_BIN",         "NVLLM_SOMETHING_ELSE"};
    note_misspelt_variables(sample.options, variables);
    CHECK(sample.options.take_notes() ==
          std::vector<std::string>{
              "the environment's NVLLM_TEMPRATURE is not read; did you mean NVLLM_TEMPERATURE?",
              "the environment's NVLLM_MAX_NUM_SEQ is not read; did you mean NVLLM_MAX_NUM_SEQS?",
              "the environment's NVLLM_PREDICT is not read; did you mean NVLLM_MAX_TOKENS?",
              "the environment's NVLLM_SEEED is not read; did you mean NVLLM_SEED?"});
}
