// Joining nodes to runs, and walking along them.
#include "lib/cache/radix_view.h"

#include <algorithm>
#include <unordered_map>

namespace nvllm {
namespace {

using Children = std::unordered_map<const PrefixNode*, std::vector<const PrefixNode*>>;

// By parent; the order does not depend on hashes.
Children children_of(const PrefixIndex& index) {
    Children children;
    for (const PrefixNode* node : index.nodes()) children[node->parent].push_back(node);
    for (auto& [parent, nodes] : children) {
        std::ranges::sort(nodes, [](const PrefixNode* one, const PrefixNode* other) {
            if (one->extra != other->extra) return one->extra < other->extra;
            return std::ranges::lexicographical_compare(one->tokens, other->tokens);
        });
    }
    return children;
}

void add_content(RadixRun& run, const PrefixNode& node, const CacheManager& cache) {
    run.tokens.insert(run.tokens.end(), node.tokens.begin(), node.tokens.end());
    ++run.num_contents;
    run.last_use = std::max(run.last_use, node.last_use);
    for (int32_t group = 0; group < cache.num_groups(); ++group) {
        for (const BlockId block : cache.parts().index.blocks(node, group)) {
            run.blocks[group].push_back(block);
            run.references += cache.parts().pools[group].references(block);
        }
    }
}

RadixRun begin_run(const PrefixNode& node, std::optional<int32_t> parent,
                   const CacheManager& cache) {
    RadixRun run;
    run.parent = parent;
    run.extra = node.extra;
    run.first_depth = node.depth;
    run.num_hits = node.num_hits;
    run.num_expected = node.num_expected;
    run.blocks.resize(cache.num_groups());
    add_content(run, node, cache);
    return run;
}

// The only content after it, when the run goes on there.
const PrefixNode* next_in_run(const PrefixNode* node, const Children& children) {
    const auto found = children.find(node);
    if (found == children.end() || found->second.size() != 1) return nullptr;
    const PrefixNode* next = found->second.front();
    return next->extra.empty() ? next : nullptr;
}

}  // namespace

RadixView radix_view(const CacheManager& cache) {
    RadixView view;
    view.block_size = cache.block_size();
    const Children children = children_of(cache.parts().index);
    struct Start {
        const PrefixNode* node;
        std::optional<int32_t> parent;
    };
    std::vector<Start> open;  // a stack: paths may be longer than a call stack is deep
    const auto push_children = [&](const PrefixNode* node, std::optional<int32_t> index) {
        const auto found = children.find(node);
        if (found == children.end()) return;
        for (size_t i = found->second.size(); i > 0; --i)
            open.push_back({found->second[i - 1], index});
    };
    push_children(nullptr, std::nullopt);
    while (!open.empty()) {
        const Start start = open.back();
        open.pop_back();
        const auto index = static_cast<int32_t>(view.runs.size());
        (start.parent ? view.runs[*start.parent].children : view.roots).push_back(index);
        RadixRun run = begin_run(*start.node, start.parent, cache);
        const PrefixNode* last = start.node;
        while (const PrefixNode* next = next_in_run(last, children)) {
            add_content(run, *next, cache);
            last = next;
        }
        view.runs.push_back(std::move(run));
        push_children(last, index);
    }
    return view;
}

int32_t RadixView::longest_match(std::span<const int32_t> tokens, std::string_view extra) const {
    struct Candidate {
        int32_t run;
        int32_t matched;  // tokens before it
    };
    std::vector<Candidate> open;
    for (const int32_t root : roots) {
        if (runs[root].extra == extra) open.push_back({root, 0});
    }
    int32_t longest = 0;
    while (!open.empty()) {
        const Candidate candidate = open.back();
        open.pop_back();
        const RadixRun& run = runs[candidate.run];
        const auto rest = tokens.subspan(static_cast<size_t>(candidate.matched));
        const auto end = std::ranges::mismatch(run.tokens, rest);
        const auto count = static_cast<int32_t>(end.in1 - run.tokens.begin());
        longest = std::max(longest, candidate.matched + count);
        if (end.in1 != run.tokens.end()) continue;
        // Children with extra bytes of their own hold media: their tokens alone say nothing.
        for (const int32_t child : run.children) {
            if (runs[child].extra.empty()) open.push_back({child, candidate.matched + count});
        }
    }
    return longest;
}

}  // namespace nvllm
