// The two-way table of tokens and their ids.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

// Built once by add(), then immutable and thread-safe.
class Vocabulary {
  public:
    Vocabulary() = default;
    Vocabulary(Vocabulary&&) = default;
    Vocabulary& operator=(Vocabulary&&) = default;

    // Throws Error{bad_data} when the id is negative or so large that the table would be mostly
    // gaps.
    void add(std::string token, int64_t id);
    // As add(), for tokens listed in the order of their ids.
    void push_back(std::string token) {
        add(std::move(token), static_cast<int64_t>(texts_.size()));
    }

    // Room for so many tokens.
    void reserve(size_t count);

    std::optional<int32_t> id(std::string_view token) const;
    // Empty when there is no such id.
    std::string_view text(int32_t id) const;
    bool has(int32_t id) const;

    size_t num_tokens() const { return ids_.size(); }
    // Largest id + 1.
    int32_t id_limit() const { return static_cast<int32_t>(texts_.size()); }
    // The length of the longest token, in bytes.
    size_t longest() const { return longest_; }

  private:
    std::deque<std::string> storage_;
    std::vector<const std::string*> texts_;
    boost::unordered_flat_map<std::string_view, int32_t> ids_;
    size_t longest_ = 0;
};

}  // namespace nvllm
