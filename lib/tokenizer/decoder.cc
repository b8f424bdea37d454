// The decoders of tokenizer.json and the table of their names.
#include "lib/tokenizer/decoder.h"

#include <array>

#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/metaspace.h"
#include "lib/tokenizer/unicode/pattern.h"

namespace nvllm {
namespace {

// A stage that needs to see each token whole: gathers its text and calls token().
class WholeTokens : public DecoderStage {
  public:
    void text(std::string_view piece) override { gathered_ += piece; }
    void end_token() override {
        const std::string token = std::move(gathered_);
        gathered_.clear();
        this->token(token);
        ++index_;
    }
    void end() override { next().end(); }

  protected:
    virtual void token(std::string_view token) = 0;
    void give(std::string_view token) {
        next().text(token);
        next().end_token();
    }
    size_t index() const { return index_; }

  private:
    std::string gathered_;
    size_t index_ = 0;
};

// clone() for a stage whose state is copyable.
template <typename Stage, typename Base>
class Cloneable : public Base {
  public:
    std::unique_ptr<DecoderStage> clone() const override {
        return std::make_unique<Stage>(static_cast<const Stage&>(*this));
    }
};

// Text from a stream of bytes: whole characters at once, the beginning of one held back.
class Utf8Assembly {
  public:
    void add(std::string_view bytes, TokenSink& out) {
        held_ += bytes;
        const size_t keep = utf8::incomplete_suffix(held_);
        out.text(utf8::with_replacement(std::string_view(held_).substr(0, held_.size() - keep)));
        held_.erase(0, held_.size() - keep);
    }
    void finish(TokenSink& out) {
        out.text(utf8::with_replacement(held_));
        held_.clear();
    }

  private:
    std::string held_;
};

class ByteLevel : public Cloneable<ByteLevel, WholeTokens> {
  public:
    void end() override {
        bytes_.finish(next());
        next().end_token();
        next().end();
    }

  protected:
    void token(std::string_view token) override { bytes_.add(bytes_of_byte_level(token), next()); }

  private:
    Utf8Assembly bytes_;
};

// <0xNN> tokens to text. A run of them is valid UTF-8 as a whole or shown as one U+FFFD per byte,
// so it is held back until it ends.
class ByteFallback : public Cloneable<ByteFallback, WholeTokens> {
  public:
    void end() override {
        flush();
        next().end();
    }

  protected:
    void token(std::string_view token) override {
        if (const auto byte = byte_of_token(token)) {
            run_.push_back(static_cast<char>(*byte));
            return;
        }
        flush();
        give(token);
    }

  private:
    void flush() {
        if (run_.empty()) return;
        if (utf8::is_valid(run_)) {
            give(run_);
        } else {
            for (size_t i = 0; i < run_.size(); ++i) give(utf8::kReplacementText);
        }
        run_.clear();
    }
    std::string run_;
};

class Fuse : public Cloneable<Fuse, DecoderStage> {
  public:
    void text(std::string_view piece) override { next().text(piece); }
    void end_token() override {}
    void end() override {
        next().end_token();
        next().end();
    }
};

// Removes up to `start` of a character from the front of each token and up to `stop` from its back.
class Strip : public Cloneable<Strip, DecoderStage> {
  public:
    explicit Strip(const JsonView& section)
        : content_(section.at("content").string()),
          start_(
              static_cast<size_t>(std::clamp<int64_t>(section.at("start").integer(), 0, 1 << 20))),
          stop_(
              static_cast<size_t>(std::clamp<int64_t>(section.at("stop").integer(), 0, 1 << 20))) {
        if (utf8::count(content_) != 1) section.fail("\"content\" is not one character");
    }

    void text(std::string_view piece) override {
        while (at_front_ && cut_ < start_ && piece.starts_with(content_)) {
            piece.remove_prefix(content_.size());
            ++cut_;
        }
        if (piece.empty()) return;
        at_front_ = false;
        hold_back(piece);
    }
    void end_token() override {
        for (size_t cut = 0; cut < stop_ && held_.ends_with(content_); ++cut) {
            held_.resize(held_.size() - content_.size());
        }
        next().text(held_);
        next().end_token();
        held_.clear();
        at_front_ = true;
        cut_ = 0;
    }
    void end() override { next().end(); }

  private:
    // Only the characters at the very end that may still be cut are kept.
    void hold_back(std::string_view piece) {
        held_ += piece;
        size_t keep = 0;
        while (keep < stop_ * content_.size() &&
               std::string_view(held_).substr(0, held_.size() - keep).ends_with(content_)) {
            keep += content_.size();
        }
        next().text(std::string_view(held_).substr(0, held_.size() - keep));
        held_.erase(0, held_.size() - keep);
    }

    std::string content_;
    size_t start_;
    size_t stop_;
    std::string held_;
    bool at_front_ = true;
    size_t cut_ = 0;
};

class Replace : public Cloneable<Replace, WholeTokens> {
  public:
    explicit Replace(const JsonView& section)
        : pattern_(load_pattern(section.at("pattern"))), content_(section.at("content").string()) {}

  protected:
    void token(std::string_view token) override {
        std::string out;
        for (const SplitPart& part : split_parts(pattern_, token, false)) {
            out += part.match ? content_
                              : token.substr(part.range.begin, part.range.end - part.range.begin);
        }
        give(out);
    }

  private:
    Regex pattern_;
    std::string content_;
};

class Metaspace : public Cloneable<Metaspace, WholeTokens> {
  public:
    explicit Metaspace(const JsonView& section) : options_(load_metaspace(section)) {}

  protected:
    void token(std::string_view token) override {
        const bool drops = index() == 0 && options_.prepend != PrependScheme::never;
        std::string out;
        for (size_t at = 0; at < token.size();) {
            if (token.substr(at).starts_with(options_.replacement)) {
                if (!drops) out.push_back(' ');
                at += options_.replacement.size();
            } else {
                out.push_back(token[at++]);
            }
        }
        give(out);
    }

  private:
    MetaspaceOptions options_;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    std::string out;
    size_t done = 0;
    for (size_t at; (at = text.find(from, done)) != std::string::npos; done = at + from.size()) {
        out.append(text, done, at - done);
        out += to;
    }
    out.append(text, done);
    text = std::move(out);
}

class WordPiece : public Cloneable<WordPiece, WholeTokens> {
  public:
    explicit WordPiece(const JsonView& section)
        : prefix_(section.string_or("prefix", "##")),
          cleanup_(section.boolean_or("cleanup", true)) {}

  protected:
    void token(std::string_view token) override {
        std::string out;
        if (index() == 0) {
            out = token;
        } else if (token.starts_with(prefix_)) {
            out = token.substr(prefix_.size());
        } else {
            out = " " + std::string(token);
        }
        if (cleanup_) clean(out);
        give(out);
    }

  private:
    // English spacing, in the order and spelling that BERT's decoder has.
    static void clean(std::string& text) {
        constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {{
            {" .", "."},
            {" ?", "?"},
            {" !", "!"},
            {" ,", ","},
            {" ' ", "'"},
            {" n't", "n't"},
            {" 'm", "'m"},
            {" do not", " don't"},
            {" 's", "'s"},
            {" 've", "'ve"},
            {" 're", "'re"},
        }};
        for (const auto& [from, to] : kRules) replace_all(text, from, to);
    }

    std::string prefix_;
    bool cleanup_;
};

// A suffix marks the end of a word: a space, but for the last token.
class SuffixWords : public Cloneable<SuffixWords, WholeTokens> {
  public:
    explicit SuffixWords(const JsonView& section) : suffix_(section.string_or("suffix", "</w>")) {}
    void end() override {
        if (waiting_) show("");
        next().end();
    }

  protected:
    void token(std::string_view token) override {
        if (waiting_) show(" ");
        waits_ = token;
        waiting_ = true;
    }

  private:
    void show(std::string_view between) {
        if (!suffix_.empty()) replace_all(waits_, suffix_, between);
        give(waits_);
        waiting_ = false;
    }
    std::string suffix_;
    std::string waits_;
    bool waiting_ = false;
};

class SpaceBetween : public Cloneable<SpaceBetween, WholeTokens> {
  protected:
    void token(std::string_view token) override {
        if (index() > 0) next().text(" ");
        give(token);
    }
};

class SentencePiece : public Cloneable<SentencePiece, WholeTokens> {
  public:
    explicit SentencePiece(const SentencePieceDecoding& options) : options_(options) {}
    void end() override {
        bytes_.finish(next());
        next().end();
    }

  protected:
    void token(std::string_view token) override {
        if (const auto byte = byte_of_token(token)) {
            const char c = static_cast<char>(*byte);
            bytes_.add({&c, 1}, next());
            at_start_ = false;
            return;
        }
        bytes_.finish(next());
        if (!options_.unknown_piece.empty() && token == options_.unknown_piece) {
            give(options_.unknown_surface);
            at_start_ = false;
            return;
        }
        if (at_start_ && options_.drop_leading_space && token.starts_with(kMark)) {
            token.remove_prefix(kMark.size());
            // With extra spaces removed, further leading ones are dropped as well.
            at_start_ = options_.drop_leading_spaces && token.empty();
        } else if (!token.empty()) {
            at_start_ = false;
        }
        std::string out(token);
        replace_all(out, kMark, " ");
        give(out);
    }

  private:
    static constexpr std::string_view kMark = "\xE2\x96\x81";
    SentencePieceDecoding options_;
    Utf8Assembly bytes_;
    bool at_start_ = true;
};

template <typename Stage>
DecoderChain one(Stage stage) {
    DecoderChain chain;
    chain.push_back(std::make_unique<Stage>(std::move(stage)));
    return chain;
}

template <typename Stage>
DecoderChain make(const JsonView& section) {
    if constexpr (std::is_constructible_v<Stage, const JsonView&>) {
        return one(Stage(section));
    } else {
        return one(Stage());
    }
}

DecoderChain load_sequence(const JsonView& section) {
    DecoderChain all;
    for (const JsonView& part : section.at("decoders").elements()) {
        for (auto& stage : load_decoder(part)) all.push_back(std::move(stage));
    }
    return all;
}

struct Row {
    std::string_view type;
    DecoderChain (*load)(const JsonView&);
};

constexpr std::array<Row, 9> kRows = {{
    {"Sequence", load_sequence},
    {"ByteLevel", make<ByteLevel>},
    {"ByteFallback", make<ByteFallback>},
    {"Fuse", make<Fuse>},
    {"Strip", make<Strip>},
    {"Replace", make<Replace>},
    {"Metaspace", make<Metaspace>},
    {"WordPiece", make<WordPiece>},
    {"BPEDecoder", make<SuffixWords>},
}};

}  // namespace

DecoderChain load_decoder(const JsonView& section) {
    const std::string type = section.at("type").string();
    for (const Row& row : kRows) {
        if (row.type == type) return row.load(section);
    }
    section.fail("decoder \"" + type + "\" is not supported");
}

DecoderChain space_decoder() { return one(SpaceBetween()); }
DecoderChain byte_level_decoder() { return one(ByteLevel()); }
DecoderChain sentencepiece_decoder(const SentencePieceDecoding& options) {
    return one(SentencePiece(options));
}

}  // namespace nvllm
