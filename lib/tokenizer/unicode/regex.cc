// PCRE2 behind the small interface that tokenizers need: all matches of one pattern in one text.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/tokenizer/unicode/regex.h"

#include <pcre2.h>

#include <mutex>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/unicode/unicode_differences.h"

namespace nvllm {
namespace {

constexpr size_t kJitStackBytes = 8u << 20;
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kHeapLimitKib = 256 << 10;
constexpr size_t kLongestPattern = 64 << 10;

std::string message_of(int code) {
    PCRE2_UCHAR buffer[256] = {};
    pcre2_get_error_message(code, buffer, sizeof(buffer));
    return reinterpret_cast<const char*>(buffer);
}

// What one thread needs to match; kept so that a call costs no allocation of stacks.
struct MatchScratch {
    pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr);
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    MatchScratch() {
        pcre2_jit_stack_assign(context, nullptr, stack);
        pcre2_set_match_limit(context, kMatchLimit);
        pcre2_set_heap_limit(context, kHeapLimitKib);
    }
    ~MatchScratch() {
        pcre2_match_context_free(context);
        pcre2_jit_stack_free(stack);
    }
    MatchScratch(const MatchScratch&) = delete;
    MatchScratch& operator=(const MatchScratch&) = delete;
};

MatchScratch& scratch() {
    thread_local MatchScratch mine;
    return mine;
}

pcre2_code* compile(const std::string& source, bool recent_characters) {
    const std::string translated = translate_pattern(source, recent_characters);
    int error = 0;
    PCRE2_SIZE where = 0;
    pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code* code = pcre2_compile(
        reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where, context);
    pcre2_compile_context_free(context);
    if (code == nullptr) {
        throw Error(ErrorKind::bad_data, "pattern \"" + source + "\": " + message_of(error) +
                                             " at byte " + std::to_string(where) + " of \"" +
                                             translated + "\"");
    }
    // Without JIT (memory that may not be made executable) the interpreter does the same, slower.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return code;
}

bool has_recent_characters(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const auto lead = static_cast<unsigned char>(text[at]);
        // The first such character is U+0897; Chinese and Korean have none between U+4000 and
        // U+9FFF.
        if (lead >= 0xE0 && !(lead >= 0xE4 && lead <= 0xE9) &&
            unicode::is_recent(utf8::decode(text.substr(at)).code_point)) {
            return true;
        }
        at += utf8::length_from_lead(lead);
    }
    return false;
}

}  // namespace

// The pattern twice: for texts without characters that are newer than PCRE2's tables, which is
// nearly all, and, made when first needed, for those with them.
struct Regex::Code {
    explicit Code(const std::string& pattern) : source(pattern), usual(compile(source, false)) {}
    ~Code() {
        pcre2_code_free(usual);
        pcre2_code_free(recent);
    }
    Code(const Code&) = delete;

    const pcre2_code* for_text(std::string_view text) {
        if (!has_recent_characters(text)) return usual;
        std::call_once(recent_made, [&] { recent = compile(source, true); });
        return recent;
    }

    std::string source;
    pcre2_code* usual = nullptr;
    pcre2_code* recent = nullptr;
    std::once_flag recent_made;
};

Regex::Regex(std::string_view pattern) : source_(pattern) {
    if (pattern.size() > kLongestPattern) {
        throw Error(ErrorKind::bad_data, "a pattern of " + std::to_string(pattern.size()) +
                                             " bytes is longer than the " +
                                             std::to_string(kLongestPattern) + " allowed");
    }
    code_ = std::make_shared<Code>(source_);
}

Regex Regex::literal(std::string_view text) {
    Regex regex;
    regex.source_ = text;
    regex.literal_ = text;
    return regex;
}

Regex::Matches::Matches(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {
    if (regex_.code_) {
        code_ = regex_.code_->for_text(text);
        data_ = pcre2_match_data_create(1, nullptr);
    } else if (regex_.literal_.empty()) {
        done_ = true;
    }
}

Regex::Matches::~Matches() { pcre2_match_data_free(static_cast<pcre2_match_data*>(data_)); }

bool Regex::Matches::search() {
    auto* data = static_cast<pcre2_match_data*>(data_);
    const int found = pcre2_match(static_cast<const pcre2_code*>(code_),
                                  reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_,
                                  PCRE2_NO_UTF_CHECK, data, scratch().context);
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0) {
        throw Error(ErrorKind::bad_data,
                    "matching pattern \"" + regex_.source_ + "\" gave up: " + message_of(found));
    }
    return true;
}

bool Regex::Matches::next(ByteRange& match) {
    if (!regex_.code_) {
        if (done_) return false;
        const size_t found = text_.find(regex_.literal_, at_);
        done_ = found == std::string_view::npos;
        if (done_) return false;
        match = {found, found + regex_.literal_.size()};
        at_ = match.end;
        return true;
    }
    while (!done_ && at_ <= text_.size()) {
        if (!search()) break;
        const PCRE2_SIZE* offsets =
            pcre2_get_ovector_pointer(static_cast<pcre2_match_data*>(data_));
        match = {offsets[0], offsets[1]};
        const bool empty = match.begin >= match.end;
        if (empty && match.end == last_end_) {
            // An empty match right after the last one does not count: try one character on.
            if (at_ >= text_.size()) break;
            at_ += utf8::length_from_lead(static_cast<unsigned char>(text_[at_]));
            continue;
        }
        at_ = match.end;
        last_end_ = match.end;
        return true;
    }
    done_ = true;
    return false;
}

}  // namespace nvllm
