// What a tokenizer is made of, as the loaders of the file formats hand it over.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/tokenizer/added_tokens.h"
#include "lib/tokenizer/class_options.h"
#include "lib/tokenizer/decoder.h"
#include "lib/tokenizer/post_processor.h"
#include "lib/tokenizer/pre_tokenizer.h"
#include "lib/tokenizer/special_tokens.h"
#include "lib/tokenizer/token_model.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/tokenizer/unicode/normalizer.h"

namespace nvllm {

// How one token becomes bytes inside a text, for Tokenizer::token_bytes.
enum class TokenSpelling { plain, byte_level, metaspace, word_piece };

// The contents of tokenizer_config.json and of the files next to it.
struct TokenizerConfig {
    SpecialTokens special;
    std::optional<bool> add_bos;
    std::optional<bool> add_eos;
    ClassOptions class_options;
    bool splits_special_tokens = false;  // special tokens in a text are not recognised
    bool cleans_up_spaces = false;       // transformers takes spaces before punctuation away,
    bool cleans_up_bpe = false;          // of BPE as well
    std::map<std::string, std::string> chat_templates;  // "default" and named ones
    // By id: added_tokens_decoder's, else those of added_tokens.json.
    std::vector<std::pair<int32_t, AddedToken>> added_tokens;
    bool has_added_tokens_decoder = false;
    std::vector<std::string> notes;
};

struct TokenizerParts {
    TokenizerFormat format = TokenizerFormat::json;
    std::unique_ptr<Normalizer> normalizer;       // null: none
    std::unique_ptr<PreTokenizer> pre_tokenizer;  // null: none
    std::unique_ptr<TokenModel> model;
    AddedTokens added;
    PostProcessor post_processor;
    DecoderChain decoder;
    TokenSpelling spelling = TokenSpelling::plain;
    std::string space_mark = "\xE2\x96\x81";  // for TokenSpelling::metaspace
    std::string continuing_prefix = "##";     // for TokenSpelling::word_piece
    TokenizerConfig config;
    std::string algorithm;  // "BPE", "SentencePiece Unigram" ...; for people
    std::string file_name;  // where it was read
    std::vector<std::string> notes;
};

// tokenizer.json. Throws Error{bad_data}.
TokenizerParts load_tokenizer_json(std::string_view text, const std::string& name,
                                   const TokenizerConfig& config);
// A SentencePiece model (tokenizer.model). Throws Error{bad_data}.
TokenizerParts load_sentencepiece(std::string_view bytes, const std::string& name,
                                  const TokenizerConfig& config);
// Ranks in tiktoken's text form. Throws Error{bad_data}.
TokenizerParts load_tiktoken(std::string_view text, const std::string& name,
                             const TokenizerConfig& config);
// Whether the bytes look like tiktoken's text form.
bool looks_like_tiktoken(std::string_view bytes);

// tokenizer_config.json, special_tokens_map.json, added_tokens.json and chat_template.* of a
// directory, where there.
TokenizerConfig load_tokenizer_config(const std::filesystem::path& directory);

}  // namespace nvllm
