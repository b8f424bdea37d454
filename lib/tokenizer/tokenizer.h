// The front door of lib/text: text to token ids and back, from the files of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/post_processor.h"
#include "lib/tokenizer/token_model.h"
#include "lib/tokenizer/unicode/regex.h"

namespace nvllm {

struct TokenizerParts;
class DecoderStage;

struct EncodeOptions {
    bool add_special_tokens = true;        // those that the model's format puts around a text
    bool recognise_special_tokens = true;  // "<|im_end|>" in the text is the token, not its letters
    // Where in the text special tokens are not recognised all the same (a token that overlaps one
    // of these ranges is not). Sorted and apart. REQUIRES: the text is valid UTF-8 when not empty.
    std::span<const ByteRange> plain_text = {};
    EncodeWork* work = nullptr;  // counts operations, when not null
};

// The format of the file a tokenizer was read from.
enum class TokenizerFormat { json, sentencepiece, tiktoken };

// Immutable after construction; thread-safe.
class Tokenizer {
  public:
    // From a model's directory: tokenizer.json, else tokenizer.model, else a tiktoken file; with
    // tokenizer_config.json. Null when the directory has no tokenizer at all. Throws
    // Error{bad_data} naming file and reason.
    static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& directory);
    // One file of any of these formats, recognized by content; no tokenizer_config.json.
    static std::shared_ptr<const Tokenizer> load_file(const std::filesystem::path& file);
    // The bytes of such a file; `name` is for messages.
    static std::shared_ptr<const Tokenizer> load_bytes(std::string_view bytes,
                                                       const std::string& name);

    explicit Tokenizer(TokenizerParts parts);
    ~Tokenizer();

    // Broken UTF-8 counts as U+FFFD. Throws Error{bad_data} when the model cannot spell the text at
    // all.
    std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
    // Two texts as a model that compares them sees them, with the special tokens around and between
    // them. Throws as encode() and PostProcessor::apply_pair() do.
    EncodedPair encode_pair(std::string_view first, std::string_view second,
                            const PairLimits& limits = {}) const;
    // Unknown ids give nothing.
    std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

    TokenizerFormat format() const;

    // The vocabulary's own spelling ("Ġthe"); empty when unknown.
    std::string token_text(int32_t id) const;
    // The bytes the token stands for inside a text; empty when unknown.
    std::string token_bytes(int32_t id) const;
    std::optional<int32_t> token_id(std::string_view token) const;
    bool is_special(int32_t id) const;
    // Largest id + 1.
    int32_t vocab_size() const;

    // From tokenizer_config.json or special_tokens_map.json.
    std::optional<int32_t> bos_id() const;
    std::optional<int32_t> eos_id() const;
    const std::string& bos_text() const;
    const std::string& eos_text() const;
    // All special tokens that have a name, as {"pad_token", "<pad>"}: what chat templates know.
    std::vector<std::pair<std::string, std::string>> named_tokens() const;
    // Empty when there is none.
    const std::string& chat_template() const;
    // A named template ("tool_use"); empty when there is none of that name.
    std::string chat_template(std::string_view name) const;
    // Of all templates, ascending; the one used without a name is "default".
    std::vector<std::string> chat_template_names() const;

    // How words are cut ("BPE", "SentencePiece Unigram" ...) and the file that says so, for people.
    const std::string& algorithm() const;
    const std::string& file_name() const;

    // What in the files was not used, in words.
    const std::vector<std::string>& notes() const;

    // For Detokenizer: the spelling to decode, nothing for unknown and skipped ids; and the
    // decoder's stages.
    std::optional<std::string_view> spelling(int32_t id, bool skip_special_tokens) const;
    const std::vector<std::unique_ptr<DecoderStage>>& decoder() const;

  private:
    std::unique_ptr<const TokenizerParts> parts_;
};

}  // namespace nvllm
