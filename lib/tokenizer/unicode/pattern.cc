// Splitting as tokenizer.json means it; the odd cases (neighbouring matches) follow the library
// that wrote the files.
#include "lib/tokenizer/unicode/pattern.h"

#include <algorithm>
#include <array>

#include "kernels/error.h"

namespace nvllm {
namespace {

struct BehaviourRow {
    std::string_view name;
    SplitBehaviour behaviour;
};

constexpr std::array<BehaviourRow, 5> kBehaviours = {{
    {"Isolated", SplitBehaviour::isolated},
    {"Removed", SplitBehaviour::removed},
    {"MergedWithPrevious", SplitBehaviour::merged_with_previous},
    {"MergedWithNext", SplitBehaviour::merged_with_next},
    {"Contiguous", SplitBehaviour::contiguous},
}};

std::vector<ByteRange> join_runs(const std::vector<SplitPart>& parts) {
    std::vector<ByteRange> pieces;
    bool previous = false;
    for (const SplitPart& part : parts) {
        if (part.match == previous && !pieces.empty()) {
            pieces.back().end = part.range.end;
        } else {
            pieces.push_back(part.range);
        }
        previous = part.match;
    }
    return pieces;
}

std::vector<ByteRange> join_backwards(const std::vector<SplitPart>& parts) {
    std::vector<ByteRange> pieces;
    bool previous = false;
    for (const SplitPart& part : parts) {
        if (part.match && !previous && !pieces.empty()) {
            pieces.back().end = part.range.end;
        } else {
            pieces.push_back(part.range);
        }
        previous = part.match;
    }
    return pieces;
}

std::vector<ByteRange> join_forwards(const std::vector<SplitPart>& parts) {
    std::vector<ByteRange> pieces;
    bool previous = false;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (part->match && !previous && !pieces.empty()) {
            pieces.back().begin = part->range.begin;
        } else {
            pieces.push_back(part->range);
        }
        previous = part->match;
    }
    std::reverse(pieces.begin(), pieces.end());
    return pieces;
}

}  // namespace

Regex load_pattern(const JsonView& pattern) {
    if (const auto regex = pattern.find("Regex")) {
        try {
            return Regex(regex->string());
        } catch (const Error& error) {
            regex->fail(error.what());
        }
    }
    return Regex::literal(pattern.at("String").string());
}

SplitBehaviour load_split_behaviour(const JsonView& name) {
    for (const BehaviourRow& row : kBehaviours) {
        if (row.name == name.string()) return row.behaviour;
    }
    name.fail("\"" + name.string() + "\" is not a way of splitting");
}

std::vector<ByteRange> join_parts(const std::vector<SplitPart>& parts, SplitBehaviour behaviour) {
    switch (behaviour) {
        case SplitBehaviour::contiguous:
            return join_runs(parts);
        case SplitBehaviour::merged_with_previous:
            return join_backwards(parts);
        case SplitBehaviour::merged_with_next:
            return join_forwards(parts);
        default:
            break;
    }
    std::vector<ByteRange> pieces;
    pieces.reserve(parts.size());
    for (const SplitPart& part : parts) {
        if (part.match && behaviour == SplitBehaviour::removed) continue;
        pieces.push_back(part.range);
    }
    return pieces;
}

std::vector<SplitPart> split_parts(const Regex& regex, std::string_view text, bool invert) {
    std::vector<SplitPart> parts;
    if (text.empty()) return {{{0, 0}, invert}};
    Regex::Matches matches(regex, text);
    size_t done = 0;
    ByteRange match;
    while (matches.next(match)) {
        if (done != match.begin) parts.push_back({{done, match.begin}, invert});
        parts.push_back({match, !invert});
        done = match.end;
    }
    if (done != text.size()) parts.push_back({{done, text.size()}, invert});
    return parts;
}

}  // namespace nvllm
