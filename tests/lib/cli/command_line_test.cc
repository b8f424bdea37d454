// Command lines: every way to write a value, faults, the order of settings, help and completion.
#include "lib/cli/command_line.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/error_of.h"
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
    return test::error_of(ErrorKind::usage, [&] { read(sample, arguments); });
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

TEST_CASE("a flag may stand alone where its list says what that means") {
    struct Asked {
        std::string health = "no";
        std::string model;
    };
    const auto asked = [](const std::vector<std::string>& arguments) {
        OptionList<Asked> list("");
        list.add("health", &Asked::health, "Ask.", bare_value("yes"));
        list.add("model", &Asked::model, "A model.", positional());
        Asked values;
        OptionSet options;
        options.add(list, values);
        resolve_settings(options, parse_command_line(arguments, options), no_environment());
        return values.health + " " + values.model;
    };
    CHECK(asked({}) == "no ");
    CHECK(asked({"--health"}) == "yes ");
    CHECK(asked({"--health", "--model", "m"}) == "yes m");
    CHECK(asked({"--health", "there", "m"}) == "there m");
    CHECK(asked({"m", "--health=-x"}) == "-x m");
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
    CHECK(usage_error({"--print-confg"}) ==
          "unknown option --print-confg; did you mean --print-config?");
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
    const std::string help = help_text(describe_program(program, sample.options));
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

namespace {

const ProgramDescription kSample = {"nvllm-sample", "1.2.3", "Does nothing. Says so.",
                                    "  nvllm-sample x\n"};

std::string said(std::vector<const char*> arguments) {
    SampleOptions sample;
    arguments.insert(arguments.begin(), "nvllm-sample");
    const auto text = read_command_line(kSample, sample.options, static_cast<int>(arguments.size()),
                                        arguments.data());
    return text.value_or("");
}

// The kind and message of the Error that reading throws.
std::pair<ErrorKind, std::string> fault_of(std::vector<const char*> arguments,
                                           const SettingsCheck& check = {}) {
    SampleOptions sample;
    arguments.insert(arguments.begin(), "nvllm-sample");
    try {
        read_command_line(kSample, sample.options, static_cast<int>(arguments.size()),
                          arguments.data(), check);
    } catch (const Error& error) {
        return {error.kind(), error.what()};
    }
    FAIL_CHECK("nothing was thrown");
    return {};
}

}  // namespace

TEST_CASE("help on a topic: an option, a heading, a word, and what is near") {
    CHECK(said({"--help", "max-num-seqs"}).find("Engine:\n      --max-num-seqs N") == 0);
    CHECK(said({"--help", "max-num-seqs"}).find("temperature") == std::string::npos);
    CHECK(said({"--help=--predict"}).find("--max-tokens, --predict") != std::string::npos);
    CHECK(said({"-h", "SAMPLING"}).find("--temperature") != std::string::npos);
    CHECK(said({"-h", "sampling"}).find("--max-num-seqs") == std::string::npos);
    CHECK(said({"--help", "memory"}).find("--cache-bytes") != std::string::npos);
    CHECK(said({"--help", "config"}).find("General:\n      --config FILE") == 0);
    CHECK(said({"--help", "--seed", "1"}).find("Usage:") == 0);
    CHECK(fault_of({"--help", "temprature"}) ==
          std::pair<ErrorKind, std::string>{
              ErrorKind::usage,
              "--help: nothing is said about 'temprature'; did you mean temperature?"});
}

TEST_CASE("the configuration in force is printed with the origin of each value") {
    const std::string printed = said({"--print-config", "--seed", "5", "--max-num-seqs=7"});
    CHECK(printed.find("# nvllm-sample 1.2.3\n") == 0);
    CHECK(printed.find("seed: 5  # flag\n") != std::string::npos);
    CHECK(printed.find("policy: \"fcfs\"  # default\n") != std::string::npos);
}

TEST_CASE("a configuration is checked and nothing is started") {
    CHECK(said({"--check-config"}) == "ok\n");
    CHECK(fault_of({"--check-config", "--config", "/no/such.yaml"}).first == ErrorKind::bad_config);
    CHECK(fault_of({"--config", "/no/such.yaml"}).first == ErrorKind::not_found);
    CHECK(fault_of({"--check-config", "--seed", "x"}).first == ErrorKind::usage);
    const SettingsCheck fails = [] { throw Error(ErrorKind::not_found, "no such key file"); };
    CHECK(fault_of({"--check-config"}, fails) ==
          std::pair<ErrorKind, std::string>{ErrorKind::bad_config, "no such key file"});
    CHECK(fault_of({}, fails).first == ErrorKind::not_found);
}

TEST_CASE("secrets are not printed, and what stands for them is refused") {
    struct Secrets {
        std::vector<std::string> keys;
    };
    OptionList<Secrets> list("api");
    list.add("key", &Secrets::keys, "A key.", secret());
    Secrets secrets{{"s3cret"}};
    OptionSet options;
    options.add(list, secrets);
    const std::string printed = print_as_yaml(options);
    CHECK(printed.find("s3cret") == std::string::npos);
    CHECK(printed.find("key: [\"***\"]") != std::string::npos);
    CHECK(print_as_json(options).find("s3cret") == std::string::npos);
    const ParsedCommandLine parsed =
        parse_command_line(std::vector<std::string>{"--key", "***"}, options);
    CHECK_THROWS_WITH_AS(resolve_settings(options, parsed, no_environment()),
                         doctest::Contains("stands for a value that was not printed"), Error);
}

TEST_CASE("every flag is in every completion and on the manual page") {
    SampleOptions sample;
    const DescribedProgram program = describe_program(kSample, sample.options);
    std::vector<OptionField> fields(general_options().begin(), general_options().end());
    for (const DescribedOption& option : program.options) fields.push_back(option.field);
    const std::string fish = completion_script(program, "fish");
    const std::string zsh = completion_script(program, "zsh");
    const std::string bash = completion_script(program, "bash");
    const std::string manual = manual_page(program);
    for (const OptionField& field : fields) {
        for (const std::string& flag : flags_of(field)) {
            CAPTURE(flag);
            const bool is_short = flag.size() == 2;
            CHECK(fish.find((is_short ? " -s " : " -l ") + flag.substr(is_short ? 1 : 2) + " ") !=
                  std::string::npos);
            CHECK(zsh.find("'*" + flag) != std::string::npos);
            CHECK((bash.find(" " + flag) != std::string::npos ||
                   bash.find("\"" + flag) != std::string::npos));
            std::string escaped;
            for (const char letter : flag)
                escaped += letter == '-' ? "\\-" : std::string(1, letter);
            CHECK(manual.find("\\fB" + escaped + "\\fR") != std::string::npos);
        }
    }
    CHECK(manual.find(".SH \"NAME\"\nnvllm\\-sample \\- Does nothing\n") != std::string::npos);
    CHECK_THROWS_WITH_AS(completion_script(program, "tcsh"), doctest::Contains("bash, zsh, fish"),
                         Error);
}

TEST_CASE("the completion script works in bash: flags, words, commands") {
    SampleOptions sample;
    DescribedProgram tool = describe_program(kSample, sample.options);
    DescribedProgram parent{{"nvllm-many", "1", "Many.", ""}, {}, {}, "go"};
    parent.commands = {tool, tool};
    parent.commands[0].description.name = "nvllm-many go";
    parent.commands[1].description.name = "nvllm-many stay";
    parent.commands[1].options.clear();
    const std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") +
                             "/nvllm_completion_test.bash";
    std::ofstream(path) << "set -e\n"
                        << completion_script(tool, "bash") << completion_script(parent, "bash")
                        << R"bash(
replies() { COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); COMPREPLY=(); $1; echo "${COMPREPLY[*]}"; }
expect() { if [ "$1" != "$2" ]; then echo "'$1' is not '$2'"; exit 1; fi; }
expect "$(replies _nvllm_sample nvllm-sample --dtype b)" bfloat16
expect "$(replies _nvllm_sample nvllm-sample --max-n)" --max-num-seqs
expect "$(replies _nvllm_sample nvllm-sample --completion '')" "bash zsh fish"
expect "$(replies _nvllm_many nvllm-many st)" stay
expect "$(replies _nvllm_many nvllm-many go --max-n)" --max-num-seqs
expect "$(replies _nvllm_many nvllm-many stay --max-n)" ""
expect "$(replies _nvllm_many nvllm-many --max-n)" --max-num-seqs
mkdir -p "$0.cache/models--org--small"
expect "$(HF_HUB_CACHE=$0.cache replies _nvllm_sample nvllm-sample -m org/)" org/small
rm -r "$0.cache"
)bash";
    CHECK(std::system(("bash " + path).c_str()) == 0);
    std::remove(path.c_str());
}
