// The table; those of models and engines are in lib/engine.
#include "tools/bench/neighbour_flags.h"

#include <array>

#include "lib/engine/options/neighbour_flags.h"

namespace nvllm::bench {
namespace {

using enum ForeignValues;

constexpr auto kFlags = std::to_array<ForeignFlag>({
    foreign_alias("-pg", one, "pg"),
    foreign_ignored("--disable-tqdm --progress", none, "what is shown goes by the terminal"),
    foreign_refused("--disable-detokenize", none, "what is measured includes all of the engine"),
    foreign_ignored("--async-engine", none, "there is one engine"),
    foreign_ignored("--delay", one, "nothing waits between two tests"),
    foreign_refused("--profile", none, "--step-log of nvllm-run tells what each step does"),
    foreign_refused("--lora-path", one,
                    "--lora-modules names adapters, of which each request has one"),
    foreign_refused("-oe --output-err", one, "-o says what goes to standard output"),
});

}  // namespace

void add_neighbour_flags(OptionSet& options) {
    options.add_foreign(kFlags);
    options.add_foreign(llama_cpp_engine_flags());
    options.add_foreign(vllm_engine_flags());
}

}  // namespace nvllm::bench
