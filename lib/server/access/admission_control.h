// Limits on the work in flight of a model: requests beyond are refused before they cost anything.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "lib/server/http/api_error.h"

namespace nvllm::server {

struct AdmissionLimits {
    const char* counted = "sequences";  // what the places are for: also "requests"
    int64_t max_sequences = 0;          // running and queued
    int64_t max_prompt_tokens = 0;      // of the requests in flight together
    int overload_status = 429;          // or 503, 529: what balancers in front understand
};

// Thread-safe.
class AdmissionControl {
  public:
    explicit AdmissionControl(const AdmissionLimits& limits) : limits_(limits) {}

    // A permit for so many sequences, held until its destruction. Outlived by the control.
    class Ticket {
      public:
        Ticket() = default;
        ~Ticket() { release(); }
        Ticket(Ticket&& other) noexcept { *this = std::move(other); }
        Ticket& operator=(Ticket&& other) noexcept;
        Ticket(const Ticket&) = delete;
        Ticket& operator=(const Ticket&) = delete;

        // Counts the prompts' tokens as well, once they are known; an error when there are too
        // many.
        std::optional<ApiError> add_prompt_tokens(int64_t count);
        void release();

      private:
        friend class AdmissionControl;
        std::shared_ptr<AdmissionControl> control_;
        int64_t sequences_ = 0;
        int64_t prompt_tokens_ = 0;
    };

    // Empty, with `error` set, when there is no room.
    static std::optional<Ticket> enter(const std::shared_ptr<AdmissionControl>& control,
                                       int64_t num_sequences, ApiError& error);

    int64_t open_sequences() const { return sequences_; }
    int64_t open_prompt_tokens() const { return prompt_tokens_; }
    const AdmissionLimits& limits() const { return limits_; }

  private:
    ApiError overloaded(std::string message) const;

    const AdmissionLimits limits_;
    std::atomic<int64_t> sequences_ = 0;
    std::atomic<int64_t> prompt_tokens_ = 0;
};

}  // namespace nvllm::server
