// Reading a SentencePiece model file: a protocol buffer with pieces, trainer and normalizer
// settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

enum class PieceType {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
};

struct SentencePieceEntry {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
};

struct SentencePieceFile {
    enum class Algorithm { unigram = 1, bpe = 2, word = 3, character = 4 };

    std::vector<SentencePieceEntry> pieces;
    Algorithm algorithm = Algorithm::unigram;
    bool treat_whitespace_as_suffix = false;
    bool byte_fallback = false;
    std::string unknown_surface = " \xE2\x81\x87 ";
    std::string charsmap;
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;
};

// Throws Error{bad_data} naming `name` when the bytes are not such a model.
SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& name);

}  // namespace nvllm
