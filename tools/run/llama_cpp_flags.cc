// The table.
#include "tools/run/llama_cpp_flags.h"

#include <array>

namespace nvllm::run {
namespace {

using enum ForeignValues;

constexpr auto kNoSampler = "there is no such sampler; --samplers names those that there are";
constexpr auto kAsInFile = "the prompt is taken as it is";

constexpr auto kFlags = std::to_array<ForeignFlag>({
    foreign_alias("-cnv --conversation -st --single-turn", none, "chat"),
    foreign_alias("-no-cnv", none, "no-chat"),
    foreign_alias("-sys", one, "system-prompt"),
    foreign_alias("-j -jf --json-schema-file", one, "json-schema"),
    foreign_alias("--grammar-file", one, "grammar"),
    foreign_ignored("-n --max-tokens --predict --n-predict", one,
                    "an answer may go to the context's end anyway", "-1 -2"),
    foreign_ignored("-s --seed", one, "answers are random without a seed", "-1"),
    foreign_ignored("-t --threads", one, "one for each physical core is the default", "-1"),
    foreign_alias("--top-k", one, "top-k=0", "-1"),
    foreign_alias("--top-nsigma", one, "top-n-sigma"),
    foreign_refused("-sysf --system-prompt-file", one,
                    "--system-prompt \"$(cat FILE)\" says the same"),
    foreign_ignored("-i --interactive -if --interactive-first -mli --multiline-input", none,
                    "without a prompt a chat begins on a terminal; --chat is for one question"),
    foreign_refused("-e --escape", none,
                    "the prompt is taken as it is; bash reads escapes in $'one\\ntwo'"),
    foreign_ignored("--no-escape --verbose-prompt --no-display-prompt -sp --special "
                    "--simple-io -co --color",
                    none, kAsInFile, {}),
    foreign_refused("-bf --binary-file", one, "-f reads any file as text"),
    foreign_refused("--in-prefix --in-suffix", one, "chat templates put words around what is said"),
    foreign_refused("--in-prefix-bos", none, "chat templates put words around what is said"),
    foreign_refused("--prompt-cache", one, "nothing of a prompt is kept between two runs"),
    foreign_refused("--prompt-cache-all --prompt-cache-ro", none,
                    "nothing of a prompt is kept between two runs"),
    foreign_refused("--repeat-last-n", one,
                    "--repetition-penalty counts the whole prompt and answer", "-1"),
    foreign_refused("--xtc-probability --xtc-threshold --dry-multiplier --dry-base "
                    "--dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker --mirostat "
                    "--mirostat-lr --mirostat-ent --dynatemp-range --dynatemp-exp "
                    "--sampling-seq --sampler-seq",
                    one, kNoSampler, "0 0.0"),
    foreign_ignored("-v --verbose -lv --verbosity --log-verbosity", maybe_one,
                    "--show-timings says how long things took"),
    foreign_ignored("--log-disable --log-colors --log-prefix --log-timestamps", none,
                    "there is no log; standard error has notes"),
    foreign_refused("--log-file", one, "there is no log; standard error has notes"),
});

}  // namespace

std::span<const ForeignFlag> llama_cli_flags() { return kFlags; }

}  // namespace nvllm::run
