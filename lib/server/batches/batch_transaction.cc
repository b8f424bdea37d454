// One response, or none.
#include "lib/server/batches/batch_transaction.h"

#include <utility>

#include "lib/server/http/api_error.h"

namespace nvllm::server {

BatchTransaction::BatchTransaction(HttpRequest request, std::function<void(HttpResponse)> respond)
    : respond_(std::move(respond)) {
    request_ = std::move(request);
}

void BatchTransaction::respond(HttpResponse response) {
    std::function<void(HttpResponse)> respond;
    std::function<void(DisconnectReason)> gone;
    {
        const std::lock_guard lock(mutex_);
        respond.swap(respond_);
        gone.swap(gone_);  // handlers hold the transaction: it must not hold on to what is theirs
    }
    if (!respond) return;
    put_in_form(error_form, request_id, response);
    respond(std::move(response));
}

void BatchTransaction::stream(std::shared_ptr<EventSource>) {
    respond(error_response(
        {.message = "lines of a batch are not streamed: leave 'stream' out", .param = "stream"}));
}

void BatchTransaction::on_disconnect(std::function<void(DisconnectReason)> gone) {
    std::unique_lock lock(mutex_);
    if (!departed_) {
        if (respond_) gone_ = std::move(gone);
        return;
    }
    const DisconnectReason why = *departed_;
    lock.unlock();
    gone(why);
}

void BatchTransaction::give_up(DisconnectReason why) {
    std::function<void(DisconnectReason)> gone;
    {
        const std::lock_guard lock(mutex_);
        departed_ = why;
        respond_ = nullptr;
        gone.swap(gone_);
    }
    if (gone) gone(why);
}

}  // namespace nvllm::server
