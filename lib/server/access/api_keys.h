// Who may ask: API keys with names and limits.
//
// A key file has a line for each key: the key, or NAME:KEY, then limits of that key, as in
//     alice:sk-4f1c... rpm=60 tpm=100000 concurrency=8
// Empty lines and those that begin with # say nothing.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/server/http/api_error.h"
#include "lib/server/openai/response_types.h"

namespace nvllm::server {

struct KeyLimits {
    std::optional<double> requests_per_minute = {};
    std::optional<double> tokens_per_minute = {};  // of prompts and outputs together
    std::optional<int64_t> concurrency = {};       // requests in flight

    bool operator==(const KeyLimits&) const = default;
};

// What came of a key's requests since the start.
struct KeyCounts {
    std::atomic<int64_t> requests{0};  // admitted
    std::atomic<int64_t> refused{0};   // over a limit of the key
    std::atomic<int64_t> prompt_tokens{0};
    std::atomic<int64_t> generated_tokens{0};
};

// What a key has used of its limits. Thread-safe.
class KeyUse {
  public:
    using Clock = std::chrono::steady_clock;

    explicit KeyUse(const KeyLimits& limits);

    // Counts a request in; the error says which limit is reached and when to ask again. When
    // entered, leave() is called once.
    std::optional<ApiError> enter(Clock::time_point now);
    // Counts it out, with the tokens it came to.
    void leave(const Usage& usage, Clock::time_point now);

    int64_t num_open() const;
    const KeyCounts& counts() const { return *counts_; }
    // Counts where `old`, of the same key with other limits, ended. Before the first request
    // enters.
    void go_on_from(const KeyUse& old) { counts_ = old.counts_; }

  private:
    // Fills up evenly to what a minute allows.
    struct Bucket {
        double per_minute = 0.0;
        double level = 0.0;
        Clock::time_point filled_at{};
        void fill(Clock::time_point now);
        double seconds_until(double wanted) const;
    };
    static ApiError exceeded(const std::string& what, double retry_after_s);
    std::optional<ApiError> find_exceeded(Clock::time_point now);

    mutable std::mutex mutex_;
    std::optional<Bucket> requests_;
    std::optional<Bucket> tokens_;
    std::optional<int64_t> concurrency_;
    int64_t num_open_ = 0;
    std::shared_ptr<KeyCounts> counts_ = std::make_shared<KeyCounts>();
};

struct ApiKey {
    std::string name;
    std::array<uint8_t, 32> digest{};  // SHA-256 of the key: the key itself is not kept
    KeyLimits limits;
    std::shared_ptr<KeyUse> use;
};

// A request of a key in flight: counted in when made, and out once. Not thread-safe.
class KeyPermit {
  public:
    // Of no key: counts nothing.
    KeyPermit() = default;
    // `use` has been entered.
    explicit KeyPermit(std::shared_ptr<KeyUse> use) : use_(std::move(use)) {}
    ~KeyPermit() { leave({}); }
    KeyPermit(KeyPermit&& other) noexcept = default;
    KeyPermit& operator=(KeyPermit&& other) noexcept {
        leave({});
        use_ = std::move(other.use_);
        return *this;
    }

    // Counts it out, with the tokens it came to.
    void leave(const Usage& usage);

  private:
    std::shared_ptr<KeyUse> use_;
};

// Throws bad_config with file and line.
std::vector<ApiKey> read_key_file(const std::filesystem::path& file);
ApiKey make_key(std::string name, std::string_view key, const KeyLimits& limits = {});

// All keys; may be replaced while requests come. Thread-safe.
class KeyRing {
  public:
    // Keys that stay, with the same limits, keep what they have used.
    void replace(std::vector<ApiKey> keys);
    bool empty() const;
    size_t size() const;
    std::vector<ApiKey> all() const;

    // The key of "Bearer <key>". Takes as long for a near miss as for any other: digests of fixed
    // length are compared in constant time, all of them.
    std::optional<ApiKey> find(std::string_view authorization) const;
    // The key of that name.
    std::optional<ApiKey> find_named(std::string_view name) const;

  private:
    mutable std::mutex mutex_;
    std::vector<ApiKey> keys_;
};

}  // namespace nvllm::server
