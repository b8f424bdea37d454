// Calibration data: texts from files, folders, standard input or the bundled default, as sequences
// of token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/chat/conversation_renderer.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm::quantize {

struct CalibrationOptions {
    // Text (.txt or anything else that is text), JSON (.json, .jsonl: a list, or lines, of objects
    // with "text" or "messages"), folders of such files, "-" for standard input. Empty: the bundled
    // text.
    std::vector<std::string> files;
    // How an object of a JSON lines file becomes text: "Question: {question}"; empty: as above.
    std::string format;
    int64_t num_samples = 512;
    int64_t max_seq_length = 2048;
    bool concatenates = true;  // texts follow one another until a sample is full
    bool shuffles = true;
    uint64_t seed = 0;
};

// Sequences of at least two tokens, none longer than was asked for.
struct CalibrationSet {
    std::vector<std::vector<int32_t>> samples;
    int64_t num_tokens = 0;
    int64_t longest = 0;
    std::string description;  // "the bundled text: 14 samples, 28,672 tokens"
};

// Fewer tokens than this say too little about any model.
inline constexpr int64_t kMinCalibrationTokens = 1024;

struct CalibrationText {
    std::string text;
    bool is_rendered = false;  // by a chat template, which wrote all special tokens there are to be
};

// Texts in the order they are found: files of a folder by name. Throws not_found, io; bad_data, for
// a file of another format (Parquet, compressed, any binary one) too, which it names.
std::vector<CalibrationText> read_calibration_texts(const CalibrationOptions& options,
                                                    const ConversationRenderer& renderer);

// Throws bad_data that says how much is missing when there are too few tokens.
CalibrationSet make_calibration_set(const CalibrationOptions& options, const Tokenizer& tokenizer,
                                    const std::string& model_type);

// The bundled text, JSON lines.
std::string_view bundled_calibration_text();

}  // namespace nvllm::quantize
