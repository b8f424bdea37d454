// Matching by PCRE2, with limits: patterns come from files.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/checkpoint/target_matcher.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <map>

#include "kernels/error.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

constexpr std::string_view kPrefix = "re:";
constexpr size_t kLongestPattern = 4096;
constexpr uint32_t kMatchLimit = 200'000;
constexpr uint32_t kDepthLimit = 10'000;
constexpr uint32_t kHeapLimitKib = 4 << 10;

std::string message_of(int code) {
    PCRE2_UCHAR buffer[256] = {};
    pcre2_get_error_message(code, buffer, sizeof(buffer));
    return reinterpret_cast<const char*>(buffer);
}

std::shared_ptr<const void> compile(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE where = 0;
    pcre2_code* code =
        pattern.size() > kLongestPattern
            ? nullptr
            : pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C, &error, &where, nullptr);
    if (code == nullptr) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("quantization target {} is no regular expression that can be "
                        "used: {}",
                        quoted_for_message(pattern), error == 0 ? "too long" : message_of(error)));
    }
    return {code, [](const void* used) {
                pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(used)));
            }};
}

struct MatchState {
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    MatchState() {
        pcre2_set_match_limit(context, kMatchLimit);
        pcre2_set_depth_limit(context, kDepthLimit);
        pcre2_set_heap_limit(context, kHeapLimitKib);
    }
    ~MatchState() {
        pcre2_match_data_free(data);
        pcre2_match_context_free(context);
    }
    MatchState(const MatchState&) = delete;
    MatchState& operator=(const MatchState&) = delete;
};

}  // namespace

TargetPattern::TargetPattern(const std::string& target) : target_(target) {
    const std::string_view text = target_;
    if (text.starts_with(kPrefix)) code_ = compile(text.substr(kPrefix.size()));
}

bool TargetPattern::matches_name(std::string_view name) const {
    if (code_ == nullptr) return name == target_;
    const MatchState state;
    const int found = pcre2_match(static_cast<const pcre2_code*>(code_.get()),
                                  reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                                  state.data, state.context);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("quantization target {}: matching {} failed: {}",
                        quoted_for_message(target_), quoted_for_message(name), message_of(found)));
    }
    return found >= 0;
}

TargetMatcher::TargetMatcher(const std::vector<std::vector<std::string>>& targets,
                             const std::vector<std::string>& ignore) {
    // Of two groups with the same target the later has it.
    std::map<std::pair<bool, std::string>, size_t> groups;
    for (size_t group = 0; group < targets.size(); ++group) {
        for (const std::string& target : targets[group]) {
            groups[{target.starts_with(kPrefix), target}] = group;
        }
    }
    for (const auto& [key, group] : groups) rows_.push_back({TargetPattern(key.second), group});
    for (const std::string& target : ignore) ignore_.emplace_back(target);
}

bool TargetMatcher::ignores(std::string_view name, std::string_view class_name) const {
    for (const TargetPattern& pattern : ignore_) {
        if (pattern.matches_name(name) || pattern.is_class(class_name)) return true;
    }
    return false;
}

std::optional<size_t> TargetMatcher::group_of(std::string_view name,
                                              std::string_view class_name) const {
    if (ignores(name, class_name)) return std::nullopt;
    for (const Row& row : rows_) {
        if (row.pattern.matches_name(name)) return row.group;
    }
    for (const Row& row : rows_) {
        if (row.pattern.is_class(class_name)) return row.group;
    }
    return std::nullopt;
}

}  // namespace nvllm
