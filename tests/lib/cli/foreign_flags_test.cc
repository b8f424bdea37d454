// Flags of other programs: replaced, dropped with a note, or refused with the reason.
#include "lib/cli/foreign_flags.h"

#include <doctest/doctest.h>

#include <array>

#include "lib/cli/command_line.h"
#include "lib/cli/config_file.h"
#include "tests/error_of.h"
#include "tests/lib/base/sample_options.h"

using namespace nvllm;
using namespace nvllm::test;

namespace {

using enum ForeignValues;

constexpr auto kTable = std::to_array<ForeignFlag>({
    foreign_alias("-c --ctx", one, "max-model-len"),
    foreign_ignored("--max-model-len", one, "it fits by itself", "auto"),
    foreign_alias("--dtype", one, "dtype=float32", "float"),
    foreign_alias("--loud", none, "echo"),
    foreign_alias("--quiet", none, "no-echo"),
    foreign_alias("--gone", one, "absent"),
    foreign_ignored("--remote-code", none, "no code is run"),
    foreign_ignored("--sizes", many, "sizes are found"),
    foreign_ignored("--token", one, "nothing is fetched"),
    foreign_refused("--ranks -nr", one, "there is one rank", "1"),
    foreign_refused("--adapters", none, "there are none yet"),
    ForeignFlag{"-fa", maybe_one, ForeignMeaning::ignored, "it is always on", "on off"},
});

struct Reading : SampleOptions {
    explicit Reading(const std::vector<std::string>& arguments) {
        options.add_foreign(kTable);
        resolve_settings(options, parse_command_line(arguments, options),
                         [](const std::string&) { return std::nullopt; });
        notes = options.take_notes();
    }
    std::vector<std::string> notes;
};

std::string refusal(const std::vector<std::string>& arguments) {
    return error_of(ErrorKind::usage, [&] { Reading{arguments}; });
}

using Notes = std::vector<std::string>;

}  // namespace

TEST_CASE("another name for an option, in every way to write it") {
    const std::vector<std::vector<std::string>> spellings = {
        {"-c", "2k"}, {"-c=2k"}, {"--ctx", "2k"}, {"--ctx=2k"}};
    for (const auto& arguments : spellings) {
        const Reading reading(arguments);
        CHECK(reading.engine.max_model_len == 2000);
        CHECK(reading.notes.empty());
    }
    CHECK(Reading({"--dtype", "float"}).engine.dtype == SampleDtype::float32);
    CHECK(Reading({"--dtype", "bfloat16"}).engine.dtype == SampleDtype::bfloat16);
    CHECK(refusal({"-c"}) == "-c needs a value");
    CHECK(refusal({"--ctx", "0"}) ==
          "--max-model-len: '0' is not a whole number such as 4096 or "
          "32k, at least 1");
}

TEST_CASE("switches and their opposites") {
    const std::vector<std::pair<std::vector<std::string>, bool>> cases = {
        {{"--loud"}, true},        {{"--no-loud"}, false},
        {{"--loud=false"}, false}, {{"--loud", "--quiet"}, false},
        {{"--no-quiet"}, true},    {{"--quiet=true"}, false}};
    for (const auto& [arguments, expected] : cases) {
        CAPTURE(arguments[0]);
        CHECK(Reading(arguments).sampling.echo == expected);
    }
}

TEST_CASE("what does nothing is said to, and takes its values along") {
    const Reading reading({"--remote-code", "-fa", "on", "-fa", "--sizes", "1", "2", "--token",
                           "s3cret", "--ranks", "1", "--max_model_len=auto", "folder"});
    CHECK(reading.model == "folder");
    CHECK(reading.notes == Notes{"--remote-code does nothing here: no code is run",
                                 "-fa on does nothing here: it is always on",
                                 "-fa does nothing here: it is always on",
                                 "--sizes does nothing here: sizes are found",
                                 "--token does nothing here: nothing is fetched",
                                 "--ranks 1 does nothing here: there is one rank",
                                 "--max_model_len auto does nothing here: it fits by itself"});
    CHECK(Reading({"--no-adapters"}).notes ==
          Notes{"--no-adapters does nothing here: there are none yet"});
}

TEST_CASE("a refusal has the reason, and no guess") {
    CHECK(refusal({"--ranks", "2"}) == "--ranks 2: there is one rank");
    CHECK(refusal({"-nr", "2"}) == "-nr 2: there is one rank");
    CHECK(refusal({"--ranks.key=2"}) == "--ranks.key 2: there is one rank");
    CHECK(refusal({"--adapters"}) == "--adapters: there are none yet");
    CHECK(refusal({"--gone", "1"}) ==
          "--gone: is --absent elsewhere; this program has no such option");
    CHECK(refusal({"--adaptors"}).starts_with("unknown option --adaptors"));
}

TEST_CASE("values that look like another program's flags are values") {
    CHECK(Reading({"--prompt", "--adapters"}).sampling.prompt == "--adapters");
    CHECK(Reading({"--", "-fa"}).model == "-fa");
}

TEST_CASE("underscores in a flag are dashes") {
    CHECK(Reading({"--max_num_seqs", "3"}).engine.max_num_seqs == 3);
    CHECK(Reading({"--max_num_seqs=3"}).engine.max_num_seqs == 3);
    CHECK(!Reading({"--no_prefix_caching"}).engine.prefix_caching);
}

TEST_CASE("another program's keys in a configuration file") {
    SampleOptions sample;
    sample.options.add_foreign(kTable);
    apply_config_text(sample.options,
                      "ctx: 3k\nremote_code: true\nsizes: [1, 2]\nquiet: true\nranks: 1\n",
                      "a.yaml");
    CHECK(sample.engine.max_model_len == 3000);
    CHECK(sample.options.find("max-model-len")->where() == "a.yaml:1");
    CHECK(!sample.sampling.echo);
    CHECK(sample.options.take_notes().size() == 3);
    CHECK(error_of(ErrorKind::bad_config, [&] {
              apply_config_text(sample.options, "\nranks: 2\n", "a.yaml");
          }) == "a.yaml:2: --ranks 2: there is one rank");
    CHECK(error_of(ErrorKind::bad_config, [&] {
              apply_config_text(sample.options, "ctx: 1k\nctx: 2k\n", "a.yaml");
          }) == "a.yaml:2: 'ctx' was already set in line 1");
}
