// Names of linears against the targets of quantization groups: exact names, patterns, classes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

// One target: "re:" and a regular expression that a name has to begin with, or a name or class.
// Immutable; thread-safe.
class TargetPattern {
  public:
    // Throws bad_data for a pattern that is no regular expression.
    explicit TargetPattern(const std::string& target);
    // Throws bad_data when matching takes unreasonably long.
    bool matches_name(std::string_view name) const;
    // All that asks here is of the class Linear.
    bool matches_class() const { return target_ == "Linear"; }
    bool is_pattern() const { return code_ != nullptr; }
    const std::string& text() const { return target_; }

  private:
    std::string target_;
    std::shared_ptr<const void> code_;
};

// Which group a name belongs to. Immutable; thread-safe.
class TargetMatcher {
  public:
    // `targets`: of each group. Throws bad_data for a broken pattern.
    TargetMatcher(const std::vector<std::vector<std::string>>& targets,
                  const std::vector<std::string>& ignore);
    // The index of the group; empty: none, or ignored.
    std::optional<size_t> group_of(std::string_view name) const;

  private:
    struct Row {
        TargetPattern pattern;
        size_t group;
    };
    bool ignores(std::string_view name) const;

    std::vector<Row> rows_;  // as they are tried: names, then patterns, each in order of bytes
    std::vector<TargetPattern> ignore_;
};

}  // namespace nvllm
