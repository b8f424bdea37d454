// PCRE2 behind the small interface that tokenizers need: all matches of one pattern in one text.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/text/regex.h"

#include <pcre2.h>

#include "kernels/error.h"
#include "lib/base/utf8.h"

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

}  // namespace

struct Regex::Code {
    pcre2_code* compiled = nullptr;
    ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(std::string_view pattern) : source_(pattern), code_(std::make_shared<Code>()) {
    if (pattern.size() > kLongestPattern) {
        throw Error(ErrorKind::bad_data, "a pattern of " + std::to_string(pattern.size()) +
                                             " bytes is longer than the " +
                                             std::to_string(kLongestPattern) + " allowed");
    }
    const std::string translated = translate_pattern(pattern);
    int error = 0;
    PCRE2_SIZE where = 0;
    pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    code_->compiled = pcre2_compile(
        reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where, context);
    pcre2_compile_context_free(context);
    if (code_->compiled == nullptr) {
        throw Error(ErrorKind::bad_data, "pattern \"" + source_ + "\": " + message_of(error) +
                                             " at byte " + std::to_string(where) + " of \"" +
                                             translated + "\"");
    }
    // Without JIT (memory that may not be made executable) the interpreter does the same, slower.
    pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);
}

Regex Regex::literal(std::string_view text) {
    Regex regex;
    regex.source_ = text;
    regex.literal_ = text;
    return regex;
}

Regex::Matches::Matches(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {
    if (regex_.code_) {
        data_ = pcre2_match_data_create_from_pattern(regex_.code_->compiled, nullptr);
    } else if (regex_.literal_.empty()) {
        done_ = true;
    }
}

Regex::Matches::~Matches() { pcre2_match_data_free(static_cast<pcre2_match_data*>(data_)); }

bool Regex::Matches::search() {
    auto* data = static_cast<pcre2_match_data*>(data_);
    const int found = pcre2_match(regex_.code_->compiled,
                                  reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_,
                                  PCRE2_NO_UTF_CHECK, data, scratch().context);
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0) {
        throw Error(ErrorKind::bad_data, "matching pattern \"" + regex_.source_ +
                                             "\" gave up: " + message_of(found));
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
