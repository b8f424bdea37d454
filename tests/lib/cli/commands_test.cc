// The choice of a sub-command.
#include "lib/cli/commands.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

namespace nvllm {
namespace {

struct Calls {
    std::vector<std::string> names;
    std::vector<std::string> last_arguments;
    std::string described_as;

    Command command(const std::string& name) {
        return {name, "does " + name, [this, name](const Invocation& invocation) {
                    names.push_back(name);
                    described_as = invocation.description.name;
                    last_arguments.assign(invocation.argv, invocation.argv + invocation.argc);
                    return static_cast<int>(names.size());
                }};
    }
};

const ProgramDescription kProgram = {"prog", "1.0", "Does things.", ""};

TEST_CASE("the first argument names the command, which gets the rest") {
    Calls calls;
    const std::vector<Command> commands = {calls.command("model"), calls.command("plan")};
    const char* arguments[] = {"prog", "plan", "-m", "x"};
    CHECK(run_command(kProgram, commands, 4, arguments) == 1);
    CHECK(calls.names == std::vector<std::string>{"plan"});
    CHECK(calls.described_as == "prog plan");
    CHECK(calls.last_arguments == std::vector<std::string>{"plan", "-m", "x"});
}

TEST_CASE("a flag first, or nothing, runs the fallback with all arguments") {
    Calls calls;
    const std::vector<Command> commands = {calls.command("throughput"), calls.command("micro")};
    const char* arguments[] = {"prog", "--batch", "64"};
    run_command(kProgram, commands, 3, arguments, "throughput");
    CHECK(calls.last_arguments == std::vector<std::string>{"prog", "--batch", "64"});
    run_command(kProgram, commands, 1, arguments, "throughput");
    CHECK(calls.names == std::vector<std::string>{"throughput", "throughput"});
}

TEST_CASE("an unknown or missing command is an error that names those there are") {
    Calls calls;
    const std::vector<Command> commands = {calls.command("model"), calls.command("plan")};
    const char* wrong[] = {"prog", "modle"};
    CHECK_THROWS_WITH_AS(run_command(kProgram, commands, 2, wrong),
                         "unknown command 'modle'; did you mean model?; there are: model, plan",
                         Error);
    const char* flag[] = {"prog", "--json"};
    CHECK_THROWS_AS(run_command(kProgram, commands, 2, flag), Error);
    CHECK(calls.names.empty());
}

TEST_CASE("flags before a command are about the program and all its commands") {
    struct Options {
        int32_t size = 3;
    };
    const auto measured = [](const Invocation& invocation) {
        Options values;
        OptionList<Options> list("own");
        list.add("size", &Options::size, "How large.");
        OptionSet options;
        options.add(list, values);
        CHECK(answered(invocation, options));
        return 0;
    };
    const std::vector<Command> commands = {{"measure", "Measures.", measured}};
    const DescribedProgram described = describe_commands(kProgram, commands, "measure");
    REQUIRE(described.commands.size() == 1);
    CHECK(described.commands[0].description.name == "prog measure");
    CHECK(described.commands[0].command_name() == "measure");
    REQUIRE(described.commands[0].options.size() == 1);
    CHECK(described.commands[0].options[0].field.name == "size");
    CHECK(described.commands[0].options[0].default_text == "3");
    CHECK(help_on_topic(described, "size").find("prog measure\nOptions:\n      --size N") == 0);
    CHECK(help_on_topic(described, "measure").find("Usage: prog measure [OPTIONS]") == 0);
    CHECK(manual_page(described).find("\\fB\\-\\-size\\fR") != std::string::npos);
}

TEST_CASE("help lists every command with its summary") {
    Calls calls;
    const std::vector<Command> commands = {calls.command("model"), calls.command("tokens")};
    const std::string text = help_text(describe_commands(kProgram, commands));
    CHECK(text.find("  model   does model\n  tokens  does tokens\n") != std::string::npos);
}

}  // namespace
}  // namespace nvllm
