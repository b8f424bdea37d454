// Keys are compared by digest; limits are buckets that fill evenly.
#include "lib/server/access/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "lib/base/file.h"
#include "lib/base/option_values.h"

namespace nvllm::server {
namespace {

constexpr uint64_t kLargestKeyFile = uint64_t{16} << 20;
constexpr std::string_view kScheme = "Bearer ";

std::array<uint8_t, 32> digest_of(std::string_view key) {
    std::array<uint8_t, 32> digest{};
    ::SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
    return digest;
}

// "rpm=60"; false when it is nothing of the kind.
bool read_limit(const std::string& word, KeyLimits& limits) {
    const size_t sign = word.find('=');
    if (sign == std::string::npos) return false;
    const std::string name = word.substr(0, sign);
    const auto value = parse_number(word.substr(sign + 1));
    if (!value || !(*value > 0.0)) return false;
    if (name == "rpm") {
        limits.requests_per_minute = *value;
    } else if (name == "tpm") {
        limits.tokens_per_minute = *value;
    } else if (name == "concurrency" && *value >= 1.0) {
        limits.concurrency = static_cast<int64_t>(*value);
    } else {
        return false;
    }
    return true;
}

ApiKey read_line(const std::string& line, size_t number, const std::string& file) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::string name = fmt::format("key-{}", number);
    if (const size_t colon = key.find(':'); colon != std::string::npos) {
        name = key.substr(0, colon);
        key.erase(0, colon + 1);
    }
    if (key.empty() || name.empty()) {
        throw Error(ErrorKind::bad_config,
                    fmt::format("{}:{}: a line holds KEY or NAME:KEY, then limits", file, number));
    }
    KeyLimits limits;
    for (std::string word; words >> word;) {
        if (read_limit(word, limits)) continue;
        throw Error(ErrorKind::bad_config,
                    fmt::format("{}:{}: '{}' is none of rpm=N, tpm=N, concurrency=N with N above 0",
                                file, number, word));
    }
    return make_key(std::move(name), key, limits);
}

}  // namespace

KeyUse::KeyUse(const KeyLimits& limits) : concurrency_(limits.concurrency) {
    const auto now = Clock::now();
    const auto full = [now](double per_minute) { return Bucket{per_minute, per_minute, now}; };
    if (limits.requests_per_minute) requests_ = full(*limits.requests_per_minute);
    if (limits.tokens_per_minute) tokens_ = full(*limits.tokens_per_minute);
}

void KeyUse::Bucket::fill(Clock::time_point now) {
    if (now <= filled_at) return;  // threads come in any order
    const double seconds = std::chrono::duration<double>(now - filled_at).count();
    level = std::min(per_minute, level + seconds * per_minute / 60.0);
    filled_at = now;
}

double KeyUse::Bucket::seconds_until(double wanted) const {
    return std::max(0.0, (wanted - level) * 60.0 / per_minute);
}

ApiError KeyUse::exceeded(const std::string& what, double retry_after_s) {
    return {.status = 429,
            .message = fmt::format("this key has reached its limit of {}", what),
            .code = "rate_limit_exceeded",
            .retry_after_s = std::max(1, static_cast<int>(std::ceil(retry_after_s))),
            .type = "rate_limit_error"};
}

std::optional<ApiError> KeyUse::enter(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    auto exceeded = find_exceeded(now);
    ++(exceeded ? counts_->refused : counts_->requests);
    if (!exceeded) ++num_open_;
    return exceeded;
}

std::optional<ApiError> KeyUse::find_exceeded(Clock::time_point now) {
    if (concurrency_ && num_open_ >= *concurrency_) {
        return exceeded(fmt::format("{} requests at once", *concurrency_), 1.0);
    }
    // Tokens are known only afterwards: a key that has used up a minute's waits until some are
    // back.
    if (tokens_) {
        tokens_->fill(now);
        if (tokens_->level <= 0.0) {
            return exceeded(fmt::format("{} tokens a minute", tokens_->per_minute),
                            tokens_->seconds_until(1.0));
        }
    }
    if (requests_) {
        requests_->fill(now);
        if (requests_->level < 1.0) {
            return exceeded(fmt::format("{} requests a minute", requests_->per_minute),
                            requests_->seconds_until(1.0));
        }
        requests_->level -= 1.0;
    }
    return std::nullopt;
}

void KeyUse::leave(const Usage& usage, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    --num_open_;
    counts_->prompt_tokens += usage.prompt_tokens;
    counts_->generated_tokens += usage.completion_tokens;
    if (!tokens_) return;
    tokens_->fill(now);
    tokens_->level -= static_cast<double>(usage.prompt_tokens + usage.completion_tokens);
}

int64_t KeyUse::num_open() const {
    const std::lock_guard lock(mutex_);
    return num_open_;
}

void KeyPermit::leave(const Usage& usage) {
    if (const auto use = std::exchange(use_, nullptr)) use->leave(usage, KeyUse::Clock::now());
}

ApiKey make_key(std::string name, std::string_view key, const KeyLimits& limits) {
    return {std::move(name), digest_of(key), limits, std::make_shared<KeyUse>(limits)};
}

std::vector<ApiKey> read_key_file(const std::filesystem::path& file) {
    std::istringstream lines(read_file(file, kLargestKeyFile));
    std::vector<ApiKey> keys;
    size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        const size_t begin = line.find_first_not_of(" \t\r");
        if (begin == std::string::npos || line[begin] == '#') continue;
        keys.push_back(read_line(line, number, file.string()));
    }
    if (keys.empty()) {
        throw Error(ErrorKind::bad_config, fmt::format("{}: holds no key", file.string()));
    }
    return keys;
}

void KeyRing::replace(std::vector<ApiKey> keys) {
    const std::lock_guard lock(mutex_);
    for (ApiKey& key : keys) {
        const auto same = std::ranges::find_if(keys_, [&](const ApiKey& old) {
            return old.digest == key.digest && old.name == key.name;
        });
        if (same == keys_.end()) continue;
        if (same->limits == key.limits) {
            key.use = same->use;
        } else {
            key.use->go_on_from(*same->use);
        }
    }
    keys_ = std::move(keys);
}

bool KeyRing::empty() const {
    const std::lock_guard lock(mutex_);
    return keys_.empty();
}

size_t KeyRing::size() const {
    const std::lock_guard lock(mutex_);
    return keys_.size();
}

std::vector<ApiKey> KeyRing::all() const {
    const std::lock_guard lock(mutex_);
    return keys_;
}

std::optional<ApiKey> KeyRing::find_named(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(keys_, name, &ApiKey::name);
    if (found == keys_.end()) return std::nullopt;
    return *found;
}

std::optional<ApiKey> KeyRing::find(std::string_view authorization) const {
    const bool is_bearer = authorization.size() > kScheme.size() &&
                           equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme);
    const std::string_view given = is_bearer ? authorization.substr(kScheme.size()) : "";
    const auto digest = digest_of(given);
    std::optional<ApiKey> found;
    const std::lock_guard lock(mutex_);
    for (const ApiKey& key : keys_) {
        const bool is_same = ::CRYPTO_memcmp(digest.data(), key.digest.data(), digest.size()) == 0;
        if (is_same && is_bearer) found = key;
    }
    return found;
}

}  // namespace nvllm::server
