// Merging with a heap over a linked list: n log n for a piece of n characters (Sennrich et al.,
// 2016).
#include "lib/tokenizer/bpe.h"

#include <algorithm>
#include <queue>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_level.h"

namespace nvllm {
namespace {

constexpr char32_t kDirectCharacters = 0x800;
constexpr int32_t kNone = -1;

struct Symbol {
    int32_t id;
    int32_t previous;
    int32_t next;
    bool live;
};

struct Candidate {
    uint32_t rank;
    int32_t position;
    int32_t id;
    // The best merge is the one of lowest rank, and among equals the leftmost.
    bool operator<(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : position > other.position;
    }
};

uint64_t key_of(int32_t left, int32_t right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

// One piece being merged.
class Merging {
  public:
    Merging(std::vector<Symbol>& symbols, const MergeTable& merges, EncodeWork& work)
        : symbols_(symbols), merges_(merges), work_(work) {
        std::vector<Candidate> first;
        first.reserve(symbols.size());
        heap_ = std::priority_queue<Candidate>(std::less<Candidate>(), std::move(first));
    }

    void run() {
        for (size_t i = 0; i + 1 < symbols_.size(); ++i) consider(static_cast<int32_t>(i));
        while (!heap_.empty()) {
            const Candidate best = heap_.top();
            heap_.pop();
            ++work_.steps;
            apply(best);
        }
    }

  private:
    // The pair that starts at `position`, if it can be merged.
    void consider(int32_t position) {
        ++work_.steps;
        const Symbol& left = symbol(position);
        if (left.next == kNone) return;
        const BpeMerge* merge = merges_.find(left.id, symbol(left.next).id);
        if (merge != nullptr) heap_.push({merge->rank, position, merge->id});
    }

    void apply(const Candidate& best) {
        Symbol& left = symbol(best.position);
        if (!left.live || left.next == kNone) return;
        Symbol& right = symbol(left.next);
        // Entries are not removed when a neighbour changes: they are recognised as stale here.
        const BpeMerge* now = merges_.find(left.id, right.id);
        if (now == nullptr || now->id != best.id) return;
        left.id = best.id;
        left.next = right.next;
        right.live = false;
        if (right.next != kNone) symbol(right.next).previous = best.position;
        if (left.previous != kNone) consider(left.previous);
        consider(best.position);
    }

    Symbol& symbol(int32_t position) { return symbols_[static_cast<size_t>(position)]; }

    std::vector<Symbol>& symbols_;
    const MergeTable& merges_;
    EncodeWork& work_;
    std::priority_queue<Candidate> heap_;
};

}  // namespace

void MergeTable::reserve(size_t count) {
    size_t size = 16;
    while (size < count * 2) size *= 2;
    slots_.assign(size, {});
    used_ = 0;
}

size_t MergeTable::slot_of(uint64_t key) const {
    size_t at = (key * 0x9E3779B97F4A7C15u) >> 20;
    for (;; ++at) {
        at &= slots_.size() - 1;
        if (slots_[at].key == key || slots_[at].key == ~uint64_t{0}) return at;
    }
}

void MergeTable::set(int32_t left, int32_t right, BpeMerge merge) {
    NVLLM_CHECK(used_ * 2 < slots_.size() + 2, "reserve() was called with too small a number");
    Slot& slot = slots_[slot_of(key_of(left, right))];
    if (slot.key == ~uint64_t{0}) ++used_;
    slot = {key_of(left, right), merge};
}

const BpeMerge* MergeTable::find(int32_t left, int32_t right) const {
    if (used_ == 0) return nullptr;
    const Slot& slot = slots_[slot_of(key_of(left, right))];
    return slot.key == ~uint64_t{0} ? nullptr : &slot.merge;
}

// The characters of a piece as tokens, with unknown ones held back until it is known whether they
// fuse.
struct BpeModel::Symbols {
    std::vector<Symbol> list;
    bool unknown_waits = false;

    void add(int32_t id) {
        const auto at = static_cast<int32_t>(list.size());
        if (at > 0) list.back().next = at;
        list.push_back({id, at - 1, kNone, true});
    }
    void flush(std::optional<int32_t> unknown_id) {
        if (unknown_waits) add(*unknown_id);
        unknown_waits = false;
    }
};

BpeModel::BpeModel(Vocabulary vocabulary,
                   const std::vector<std::pair<std::string, std::string>>& merges,
                   BpeOptions options)
    : TokenModel(std::move(vocabulary)), options_(std::move(options)) {
    const auto required = [&](const std::string& token, size_t rank) {
        const auto id = vocabulary_.id(token);
        if (!id) {
            throw Error(ErrorKind::bad_data, "merge " + std::to_string(rank) + " names \"" +
                                                 token.substr(0, 80) +
                                                 "\", which is not in the vocabulary");
        }
        return *id;
    };
    merges_.reserve(merges.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const auto& [left, right] = merges[rank];
        const size_t prefix = std::min(options_.continuing_prefix.size(), right.size());
        const int32_t left_id = required(left, rank);
        const int32_t right_id = required(right, rank);
        merges_.set(left_id, right_id,
                    {static_cast<uint32_t>(rank), required(left + right.substr(prefix), rank)});
    }
    if (options_.unknown_token) unknown_id_ = vocabulary_.id(*options_.unknown_token);
    for (int byte = 0; byte < 256; ++byte) {
        byte_ids_.push_back(vocabulary_.id(byte_token(static_cast<uint8_t>(byte))).value_or(kNone));
    }
    for (char32_t c = 0; c < kDirectCharacters; ++c) {
        std::string text;
        utf8::append(text, c);
        character_ids_.push_back(vocabulary_.id(text).value_or(kNone));
    }
}

bool BpeModel::add_bytes(std::string_view character, Symbols& symbols) const {
    const auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
    if (!std::all_of(character.begin(), character.end(), [&](char c) { return id_of(c) >= 0; })) {
        return false;
    }
    for (const char c : character) symbols.add(id_of(c));
    return true;
}

void BpeModel::add_character(std::string_view piece, size_t begin, size_t end,
                             Symbols& symbols) const {
    std::string_view character = piece.substr(begin, end - begin);
    std::string decorated;
    const bool prefixed = begin > 0 && !options_.continuing_prefix.empty();
    const bool suffixed = end == piece.size() && !options_.end_of_word_suffix.empty();
    if (prefixed || suffixed) {
        if (prefixed) decorated = options_.continuing_prefix;
        decorated += character;
        if (suffixed) decorated += options_.end_of_word_suffix;
        character = decorated;
    }
    std::optional<int32_t> id;
    const char32_t code_point = utf8::decode(piece.substr(begin)).code_point;
    if (decorated.empty() && code_point < kDirectCharacters) {
        const int32_t direct = character_ids_[code_point];
        if (direct >= 0) id = direct;
    } else {
        id = vocabulary_.id(character);
    }
    if (id) {
        symbols.flush(unknown_id_);
        symbols.add(*id);
        return;
    }
    if (options_.byte_fallback && add_bytes(character, symbols)) return;
    if (!options_.unknown_token) return;
    if (!unknown_id_) {
        throw Error(ErrorKind::bad_data, "the unknown token \"" + *options_.unknown_token +
                                             "\" is not in the vocabulary");
    }
    if (!options_.fuse_unknown) symbols.flush(unknown_id_);
    symbols.unknown_waits = true;
}

void BpeModel::tokenize(std::string_view piece, std::vector<int32_t>& ids, EncodeWork& work) const {
    if (piece.empty()) return;
    if (options_.ignore_merges) {
        if (const auto whole = vocabulary_.id(piece)) {
            ids.push_back(*whole);
            return;
        }
    }
    Symbols symbols;
    symbols.list.reserve(piece.size());
    for (size_t at = 0; at < piece.size();) {
        const size_t end = at + utf8::length_from_lead(static_cast<unsigned char>(piece[at]));
        add_character(piece, at, end, symbols);
        at = end;
    }
    symbols.flush(unknown_id_);
    Merging(symbols.list, merges_, work).run();
    for (const Symbol& symbol : symbols.list) {
        if (symbol.live) ids.push_back(symbol.id);
    }
}

}  // namespace nvllm
