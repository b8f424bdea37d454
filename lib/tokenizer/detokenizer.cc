// A stream through the stages of the tokenizer's decoder.
#include "lib/tokenizer/detokenizer.h"

#include <algorithm>

#include "lib/base/utf8.h"
#include "lib/tokenizer/decoder.h"

namespace nvllm {

// The stages of one stream, linked, with the text that came out of the last.
class Detokenizer::Chain : public TokenSink {
  public:
    explicit Chain(const DecoderChain& stages) {
        for (const auto& stage : stages) stages_.push_back(stage->clone());
        for (size_t i = 0; i < stages_.size(); ++i) {
            stages_[i]->set_next(
                i + 1 < stages_.size() ? static_cast<TokenSink*>(stages_[i + 1].get()) : this);
        }
    }

    TokenSink& first() {
        return stages_.empty() ? *this : static_cast<TokenSink&>(*stages_.front());
    }
    const DecoderChain& stages() const { return stages_; }
    std::string take() { return std::exchange(out_, {}); }

    void text(std::string_view piece) override { out_ += piece; }
    void end_token() override {}
    void end() override {}

  private:
    DecoderChain stages_;
    std::string out_;
};

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens,
                         std::span<const int32_t> context, std::vector<int32_t> kept_special)
    : tokenizer_(std::move(tokenizer)),
      skip_special_tokens_(skip_special_tokens),
      kept_special_(std::move(kept_special)),
      chain_(std::make_unique<Chain>(tokenizer_->decoder())) {
    for (const int32_t id : context) append(id);
    if (context.empty()) return;
    // Whole text that is held back belongs to the context; half a character belongs to what
    // completes it.
    Chain ahead(chain_->stages());
    ahead.first().end();
    const std::string held = ahead.take();
    if (held.find(utf8::kReplacementText) == std::string::npos) to_skip_ = held.size();
}

Detokenizer::~Detokenizer() = default;
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;

std::string Detokenizer::take() {
    std::string text = chain_->take();
    const size_t skipped = std::min(to_skip_, text.size());
    to_skip_ -= skipped;
    return text.erase(0, skipped);
}

std::string Detokenizer::append(int32_t id) {
    const bool is_kept = std::ranges::find(kept_special_, id) != kept_special_.end();
    const auto spelling = tokenizer_->spelling(id, skip_special_tokens_ && !is_kept);
    if (!spelling) return {};
    chain_->first().text(*spelling);
    chain_->first().end_token();
    return take();
}

std::string Detokenizer::finish() {
    chain_->first().end();
    return take();
}

}  // namespace nvllm
