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
    bool is_class(std::string_view name) const { return target_ == name; }
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
    // The index of the group of a module of this name and class; empty: none, or ignored.
    std::optional<size_t> group_of(std::string_view name,
                                   std::string_view class_name = "Linear") const;

  private:
    struct Row {
        TargetPattern pattern;
        size_t group;
    };
    bool ignores(std::string_view name, std::string_view class_name) const;

    std::vector<Row> rows_;  // as they are tried: names, then patterns, each in order of bytes
    std::vector<TargetPattern> ignore_;
};

}  // namespace nvllm
