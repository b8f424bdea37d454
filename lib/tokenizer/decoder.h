// Decoders: token spellings back to text, as a chain of stages that work on a stream.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/json_view.h"

namespace nvllm {

// Receives tokens as pieces of text, each token closed by end_token(), the whole by end().
class TokenSink {
  public:
    virtual ~TokenSink() = default;
    virtual void text(std::string_view piece) = 0;
    virtual void end_token() = 0;
    virtual void end() = 0;
};

// A stage passes on to `next` what is certain, and holds back what later tokens may change.
// It has the state of one stream; not thread-safe.
class DecoderStage : public TokenSink {
  public:
    virtual std::unique_ptr<DecoderStage> clone() const = 0;
    void set_next(TokenSink* next) { next_ = next; }

  protected:
    TokenSink& next() { return *next_; }

  private:
    TokenSink* next_ = nullptr;
};

// The stages of a decoder, in order, each at the start of a stream.
using DecoderChain = std::vector<std::unique_ptr<DecoderStage>>;

// The "decoder" section of tokenizer.json. Throws Error{bad_data} for one it does not know.
DecoderChain load_decoder(const JsonView& section);

// What a tokenizer without a decoder does: a space between tokens.
DecoderChain space_decoder();

// SentencePiece's own decoding.
struct SentencePieceDecoding {
    bool drop_leading_space = true;    // the space that was put in front of the text
    bool drop_leading_spaces = false;  // all of them
    std::string unknown_piece;         // is shown as unknown_surface
    std::string unknown_surface;
};
DecoderChain sentencepiece_decoder(const SentencePieceDecoding& options);

// Byte-level decoding, for tokens that are spelled in byte-level characters.
DecoderChain byte_level_decoder();

}  // namespace nvllm
