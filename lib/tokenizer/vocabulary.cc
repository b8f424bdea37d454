// Ids are dense in practice; a table with gaps far beyond the number of tokens is refused.
#include "lib/tokenizer/vocabulary.h"

#include "kernels/error.h"

namespace nvllm {
namespace {

// An id this far beyond the tokens seen so far is taken for a damaged file.
constexpr int64_t kLargestGap = 1 << 22;

}  // namespace

void Vocabulary::add(std::string token, int64_t id) {
    if (id < 0 || id >= static_cast<int64_t>(storage_.size()) * 4 + kLargestGap) {
        throw Error(ErrorKind::bad_data, "token \"" + token.substr(0, 80) +
                                             "\" has the impossible id " + std::to_string(id));
    }
    if (id >= id_limit()) texts_.resize(static_cast<size_t>(id) + 1, nullptr);
    const std::string& kept = storage_.emplace_back(std::move(token));
    longest_ = std::max(longest_, kept.size());
    texts_[static_cast<size_t>(id)] = &kept;
    ids_[kept] = static_cast<int32_t>(id);
}

void Vocabulary::reserve(size_t count) {
    texts_.reserve(count);
    ids_.reserve(count);
}

std::optional<int32_t> Vocabulary::id(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

bool Vocabulary::has(int32_t id) const {
    return id >= 0 && id < id_limit() && texts_[static_cast<size_t>(id)] != nullptr;
}

std::string_view Vocabulary::text(int32_t id) const {
    return has(id) ? std::string_view(*texts_[static_cast<size_t>(id)]) : std::string_view();
}

}  // namespace nvllm
