// Finding names by what they end with.
#include "lib/model/families/stored_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

namespace nvllm {
namespace {

// Towers for pictures and sound have blocks of their own.
bool is_of_other_part(std::string_view prefix) {
    constexpr std::array<std::string_view, 4> kParts = {"vision", "visual", "image", "audio"};
    return std::ranges::any_of(
        kParts, [&](std::string_view part) { return prefix.find(part) != std::string_view::npos; });
}

// "a.b." without its last part: "a."
std::string_view parent_of(std::string_view prefix) {
    const size_t dot = prefix.substr(0, prefix.size() - 1).rfind('.');
    return prefix.substr(0, dot == std::string_view::npos ? 0 : dot + 1);
}

// The head is a sibling of the body or of a module around it.
std::string head_name(const WeightSource& source, std::string_view prefix) {
    for (std::string_view outer = prefix;; outer = parent_of(outer)) {
        std::string name = std::string(outer) + "lm_head";
        if (outer.empty() || source.has_matrix(name)) return name;
    }
}

}  // namespace

std::string body_prefix(const WeightSource& source, const BodyMarks& marks, int64_t hidden) {
    // Better first: a body with its embedding before layers for drafts, then the usual name.
    using Rank = std::tuple<bool, bool, size_t>;
    std::string best(marks.usual);
    std::optional<Rank> best_rank;
    for (const std::string_view name : source.names()) {
        if (!name.ends_with(marks.norm)) continue;
        const std::string prefix(name.substr(0, name.size() - marks.norm.size()));
        const bool is_whole = prefix.empty() || prefix.ends_with('.');
        if (!is_whole || is_of_other_part(prefix)) continue;
        if (!source.has_shape(std::string(name), {hidden})) continue;
        const Rank rank(!source.has(prefix + std::string(marks.table)), prefix != marks.usual,
                        prefix.size());
        if (best_rank && *best_rank <= rank) continue;
        best = prefix;
        best_rank = rank;
    }
    return best;
}

VocabularyNames vocabulary_names(const WeightSource& source, const ModelConfig& config,
                                 const std::string& prefix, const std::string& embedding) {
    VocabularyNames names{embedding, head_name(source, prefix), config.tie_word_embeddings};
    if (!names.is_tied || !source.has_matrix(names.head)) return names;
    const std::string stored = names.head + ".weight";
    if (!source.has(names.embedding) && source.has(stored)) {
        names.embedding = stored;
    } else {
        names.is_tied = source.are_equal(stored, names.embedding);
    }
    return names;
}

}  // namespace nvllm
