// The rows.
#include "lib/schedule/speculation/proposers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>
#include <vector>

#include "kernels/error.h"
#include "lib/schedule/speculation/ngram_proposer.h"
#include "lib/schedule/speculation/suffix_proposer.h"

namespace nvllm {
namespace {

template <typename Proposer>
std::unique_ptr<DraftProposer> make(const SpeculationConfig& config) {
    return std::make_unique<Proposer>(config);
}

constexpr auto kMethods = std::to_array<DraftProposerMethod>({
    {"ngram", "what followed the same tokens earlier in the prompt or the answer",
     make<NgramProposer>},
    {"suffix", "the same, and what followed them in past answers of the engine",
     make<SuffixProposer>},
});

}  // namespace

std::span<const DraftProposerMethod> draft_methods() { return kMethods; }

const DraftProposerMethod& find_draft_method(const std::string& name) {
    std::vector<std::string_view> names;
    for (const DraftProposerMethod& method : kMethods) {
        if (name == method.name) return method;
        names.emplace_back(method.name);
    }
    throw Error(ErrorKind::bad_config, fmt::format("method is '{}'; drafts are proposed by {}",
                                                   name, fmt::join(names, ", ")));
}

}  // namespace nvllm
