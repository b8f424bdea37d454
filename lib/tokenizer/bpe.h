// Byte-pair encoding with a list of merges (the BPE model of tokenizer.json).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/tokenizer/token_model.h"

namespace nvllm {

struct BpeOptions {
    std::optional<std::string> unknown_token;
    std::string continuing_prefix;   // in front of each character but the first
    std::string end_of_word_suffix;  // behind the last character
    bool fuse_unknown = false;       // one unknown token for a run of unknown characters
    bool byte_fallback = false;      // unknown characters as <0xNN>
    bool ignore_merges = false;      // a piece that is a token stays whole
};

// The id pair as one key, and what it becomes.
struct BpeMerge {
    uint32_t rank = 0;
    int32_t id = 0;
};

// Pairs of ids to merges: open addressing, built once.
class MergeTable {
  public:
    void reserve(size_t count);
    void set(int32_t left, int32_t right, BpeMerge merge);
    const BpeMerge* find(int32_t left, int32_t right) const;

  private:
    struct Slot {
        uint64_t key = ~uint64_t{0};
        BpeMerge merge;
    };
    size_t slot_of(uint64_t key) const;
    std::vector<Slot> slots_;
    size_t used_ = 0;
};

class BpeModel : public TokenModel {
  public:
    // `merges` in order of rank. Throws Error{bad_data} when a merge names a token outside the
    // vocabulary.
    BpeModel(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
             BpeOptions options);

    void tokenize(std::string_view piece, std::vector<int32_t>& ids,
                  EncodeWork& work) const override;

  private:
    struct Symbols;
    void add_character(std::string_view piece, size_t begin, size_t end, Symbols& symbols) const;
    bool add_bytes(std::string_view character, Symbols& symbols) const;

    BpeOptions options_;
    MergeTable merges_;
    std::optional<int32_t> unknown_id_;
    std::vector<int32_t> byte_ids_;       // of <0x00> to <0xFF>; -1 where missing
    std::vector<int32_t> character_ids_;  // of the first code points; -1 where missing
};

}  // namespace nvllm
