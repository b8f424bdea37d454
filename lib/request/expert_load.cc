// By the blocks' names.
#include "lib/request/expert_load.h"

#include <algorithm>

namespace nvllm {

void add_expert_load(const std::vector<ExpertLoad>& load, std::vector<ExpertLoad>& sum) {
    for (const ExpertLoad& one : load) {
        const auto found = std::ranges::find(sum, one.block, &ExpertLoad::block);
        if (found == sum.end()) {
            sum.push_back(one);
            continue;
        }
        found->tokens.resize(std::max(found->tokens.size(), one.tokens.size()));
        for (size_t expert = 0; expert < one.tokens.size(); ++expert) {
            found->tokens[expert] += one.tokens[expert];
        }
    }
}

}  // namespace nvllm
