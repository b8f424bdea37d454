// A line of a batch as a request that came over no connection.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "lib/server/http/http_transaction.h"

namespace nvllm::server {

class BatchTransaction final : public HttpTransaction {
  public:
    // `respond` runs once, on any thread.
    BatchTransaction(HttpRequest request, std::function<void(HttpResponse)> respond);

    void respond(HttpResponse response) override;
    // Refused: the lines of a batch have whole responses.
    void stream(std::shared_ptr<EventSource> source) override;
    void wake() override {}
    void on_disconnect(std::function<void(DisconnectReason)> gone) override;

    // The response is no longer wanted, and does not arrive any more.
    void give_up(DisconnectReason why);

  private:
    std::mutex mutex_;
    std::function<void(HttpResponse)> respond_;  // empty once it was called, or is not to be
    std::function<void(DisconnectReason)> gone_;
    std::optional<DisconnectReason> departed_;
};

}  // namespace nvllm::server
