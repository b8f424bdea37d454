// Command lines: every way to write a value, faults, the order of settings, help and completion.
#include "lib/base/command_line.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/lib/base/sample_options.h"

using namespace nvllm;
using namespace nvllm::test;

namespace {

EnvironmentLookup no_environment() {
    return [](const std::string&) { return std::nullopt; };
}

void read(SampleOptions& sample, std::vector<std::string> arguments) {
    resolve_settings(sample.options, parse_command_line(arguments, sample.options),
                     no_environment());
}

std::string usage_error(std::vector<std::string> arguments) {
    SampleOptions sample;
    try {
        read(sample, arguments);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::usage);
        return error.what();
    }
    FAIL_CHECK("nothing was thrown");
    return "";
}

std::string prompt_of(std::vector<std::string> arguments) {
    SampleOptions sample;
    read(sample, arguments);
    return sample.sampling.prompt;
}

}  // namespace

TEST_CASE("values may look like anything") {
    const std::vector<std::string> values = {
        "hello", "-hello", "--hello", "--top-k",  "-1",    "",   " ",          "--", "-",
        "=",     "=x",     "a=b",     "-a=b",     "[a,b]", "{}", "{\"a\": 1}", "%%", "'q'",
        "a,b",   "é",      "\n",      "--prompt", "-p",    "/x", "@f",         "!x", "--no-echo"};
    for (const std::string& value : values) {
        CAPTURE(value);
        CHECK(prompt_of({"-p", value}) == value);
        CHECK(prompt_of({"-p=" + value}) == value);
        CHECK(prompt_of({"--prompt", value}) == value);
        CHECK(prompt_of({"--prompt=" + value}) == value);
        CHECK(prompt_of({"--echo", "--prompt", value, "--seed", "1"}) == value);
        SampleOptions sample;
        read(sample, {"--stop", value, "--stop=" + value, "model"});
        CHECK(sample.sampling.stop == std::vector<std::string>{value, value});
        CHECK(sample.model == "model");
    }
}

TEST_CASE("short names, aliases, numbers, flags") {
    SampleOptions sample;
    read(sample, {"folder", "-n5", "--temp=0.5", "--presence-penalty", "-1.5", "--stop-token-ids",
                  "1", "--stop-token-ids", "2", "--max-model-len", "32k", "--dtype", "bfloat16",
                  "--echo", "--no-prefix-caching", "--system", "s"});
    CHECK(sample.model == "folder");
    CHECK(sample.sampling.max_tokens == 5);
    CHECK(sample.sampling.temperature == 0.5f);
    CHECK(sample.sampling.presence_penalty == -1.5f);
    CHECK(sample.sampling.stop_token_ids == std::vector<int32_t>{1, 2});
    CHECK(sample.engine.max_model_len == 32000);
    CHECK(sample.engine.dtype == SampleDtype::bfloat16);
    CHECK(sample.sampling.echo);
    CHECK(!sample.engine.prefix_caching);
    CHECK(sample.sampling.system_prompt == "s");
    CHECK(sample.options.find("model")->where() == "MODEL");
}

TEST_CASE("booleans, the last word counts") {
    for (const auto& [arguments, expected] :
         std::vector<std::pair<std::vector<std::string>, bool>>{{{"--echo"}, true},
                                                                {{"--no-echo"}, false},
                                                                {{"--echo", "--no-echo"}, false},
                                                                {{"--no-echo", "--echo"}, true},
                                                                {{"--echo=false"}, false},
                                                                {{"--echo=true"}, true}}) {
        SampleOptions sample;
        read(sample, arguments);
        CHECK(sample.sampling.echo == expected);
    }
    SampleOptions sample;
    read(sample, {"--seed", "1", "--seed=2", "--echo", "folder"});
    CHECK(sample.sampling.seed == 2);
    CHECK(sample.model == "folder");
}

TEST_CASE("after -- nothing is an option") {
    SampleOptions sample;
    read(sample, {"--seed", "1", "--", "--model-with-dashes"});
    CHECK(sample.model == "--model-with-dashes");
    SampleOptions other;
    read(other, {"--model", "m"});
    CHECK(other.model == "m");
}

TEST_CASE("usage faults name flag, value, range and the nearest flag") {
    CHECK(usage_error({"--max-num-seqs", "0"}) ==
          "--max-num-seqs: '0' is not a whole number from 1 to 4096");
    CHECK(usage_error({"--max-num-seqs=x"}) ==
          "--max-num-seqs: 'x' is not a whole number from 1 to 4096");
    CHECK(usage_error({"--max-num-seq", "3"}) ==
          "unknown option --max-num-seq; did you mean --max-num-seqs?");
    CHECK(usage_error({"--max-num-seq=3"}) ==
          "unknown option --max-num-seq; did you mean --max-num-seqs?");
    CHECK(usage_error({"--max"}).find("unknown option --max") == 0);
    CHECK(usage_error({"--no-ecko"}).find("did you mean") != std::string::npos);
    CHECK(usage_error({"--utterly-unknown"}) == "unknown option --utterly-unknown");
    CHECK(usage_error({"--hepl"}) == "unknown option --hepl; did you mean --help?");
    CHECK(usage_error({"-z"}).find("unknown option -z") == 0);
    CHECK(usage_error({"--seed"}) == "--seed needs a value");
    CHECK(usage_error({"-p"}) == "-p needs a value");
    CHECK(usage_error({"one", "--", "--two"}) == "unexpected argument '--two'");
    CHECK(usage_error({"one", "two"}) == "unexpected argument 'two'");
    CHECK(usage_error({"--echo=perhaps"}).find("perhaps") != std::string::npos);
    CHECK(usage_error({"--dtype", ""}) == "--dtype: '' is not one of auto, float32, bfloat16");
}

TEST_CASE("flag over environment over file over default, for every option") {
    const std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") +
                             "/nvllm_settings_test.yaml";
    const std::map<std::string, std::vector<std::string>> values = {
        {"model", {"a", "b", "c"}},
        {"max-num-seqs", {"1", "2", "3"}},
        {"max-model-len", {"10", "20", "30"}},
        {"cache-bytes", {"2MiB", "3MiB", "4MiB"}},
        {"dtype", {"float32", "bfloat16", "auto"}},
        {"policy", {"priority", "fcfs", "priority"}},
        {"prefix-caching", {"false", "true", "false"}},
        {"temperature", {"0.1", "0.2", "0.3"}},
        {"max-tokens", {"1", "2", "3"}},
        {"stop", {"x", "y", "z"}},
        {"stop-token-ids", {"1", "2", "3"}},
        {"seed", {"1", "2", "3"}},
        {"prompt", {"f", "e", "g"}},
        {"system-prompt", {"f", "e", "g"}},
        {"echo", {"true", "false", "true"}},
        {"presence-penalty", {"0.1", "0.2", "0.3"}}};
    SampleOptions listed_options;
    for (const BoundOption& listed : listed_options.options.all()) {
        const std::string name = listed.field().name;
        CAPTURE(name);
        REQUIRE(values.count(name) == 1);
        const std::vector<std::string>& texts = values.at(name);
        std::ofstream(path) << name << ": " << texts[0] << "\n";
        for (int sources = 0; sources < 8; ++sources) {
            SampleOptions sample;
            const EnvironmentLookup environment =
                [&](const std::string& variable) -> std::optional<std::string> {
                if ((sources & 2) == 0 || variable != environment_name(name)) return std::nullopt;
                return texts[1];
            };
            std::vector<std::string> arguments;
            if (sources & 1) arguments = {"--config", path};
            if (sources & 4) arguments.push_back("--" + name + "=" + texts[2]);
            resolve_settings(sample.options, parse_command_line(arguments, sample.options),
                             environment);
            const BoundOption& option = *sample.options.find(name);
            const OptionOrigin expected = sources & 4   ? OptionOrigin::flag
                                          : sources & 2 ? OptionOrigin::environment
                                          : sources & 1 ? OptionOrigin::file
                                                        : OptionOrigin::built_in;
            CAPTURE(sources);
            CHECK(option.origin() == expected);
            if (sources == 0) continue;
            CHECK(option.texts() == std::vector<std::string>{texts[sources & 4   ? 2
                                                                   : sources & 2 ? 1
                                                                                 : 0]});
        }
    }
    std::remove(path.c_str());
}

TEST_CASE("the environment may name the configuration file") {
    SampleOptions sample;
    const EnvironmentLookup environment =
        [](const std::string& name) -> std::optional<std::string> {
        if (name == "NVLLM_CONFIG") return "/no/such/file.yaml";
        return std::nullopt;
    };
    CHECK_THROWS_AS(resolve_settings(sample.options, {}, environment), Error);
}

TEST_CASE("help fits 80 columns and names every option") {
    SampleOptions sample;
    const ProgramDescription program = {"nvllm-sample", "1.2.3", "Does nothing.",
                                        "  nvllm-sample x\n"};
    const std::string help = help_text(program, sample.options);
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
        CAPTURE(line);
        CHECK(line.size() <= 80);
    }
    for (const BoundOption& option : sample.options.all()) {
        const OptionField& field = option.field();
        const bool is_boolean = field.kind == OptionKind::boolean;
        CHECK(help.find((is_boolean ? "--[no-]" : "--") + field.name) != std::string::npos);
        for (const std::string& alias : field.aliases)
            CHECK(help.find("--" + alias) != std::string::npos);
    }
    CHECK(help.find("Usage: nvllm-sample [OPTIONS] [MODEL]") == 0);
    std::string one_line;
    for (const char letter : help) {
        if (letter == '\n' || (letter == ' ' && one_line.ends_with(' '))) continue;
        one_line.push_back(letter);
    }
    CHECK(one_line.find("(1 to 4096; default: 256)") != std::string::npos);
    CHECK(one_line.find("default: from the model") != std::string::npos);
    CHECK(one_line.find("one of fcfs, priority;") != std::string::npos);
    CHECK(help.find("random") == std::string::npos);
    const char* asking[] = {"nvllm-sample", "--help", "--seed", "bad"};
    CHECK(read_command_line(program, sample.options, 4, asking) == help);
    const char* version[] = {"nvllm-sample", "--version"};
    CHECK(read_command_line(program, sample.options, 2, version) == "nvllm-sample 1.2.3\n");
}

TEST_CASE("the completion script knows every flag and choice, and bash reads it") {
    SampleOptions sample;
    const std::string script = bash_completion({"nvllm-sample", "1", "", ""}, sample.options);
    for (const BoundOption& option : sample.options.all()) {
        CHECK(script.find("--" + option.field().name) != std::string::npos);
    }
    const std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") +
                             "/nvllm_completion_test.bash";
    std::ofstream(path) << script
                        << "COMP_WORDS=(nvllm-sample --dtype b); COMP_CWORD=2; _nvllm_sample\n"
                           "[ \"${COMPREPLY[*]}\" = bfloat16 ] || exit 1\n"
                           "COMP_WORDS=(nvllm-sample --max-n); COMP_CWORD=1; _nvllm_sample\n"
                           "[ \"${COMPREPLY[*]}\" = --max-num-seqs ] || exit 2\n";
    CHECK(std::system(("bash " + path).c_str()) == 0);
    std::remove(path.c_str());
}
