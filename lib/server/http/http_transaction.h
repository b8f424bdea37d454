// One request and the way back: what connections hand to handlers, whatever carries them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/http/http_message.h"
#include "lib/server/http/request_notes.h"

namespace nvllm::server {

enum class StreamState {
    open,      // more will come; Exchange::wake() says when
    complete,  // all was said
    failed,    // the last event says why: the client must not take the response as complete
};

// Why a response is no longer wanted.
enum class DisconnectReason {
    closed,     // the client went
    stalled,    // it did not read for too long
    shut_down,  // the server ends
};

// An event of a streamed response. A WebSocket carries the data alone.
struct StreamEvent {
    std::string data;       // a JSON text, or an end mark; without line breaks
    std::string name = {};  // the event's type, of APIs that name them; else empty
};

// The events of one streamed response, its end mark included, if the API has one. Called on the I/O
// thread; must not block.
class EventSource {
  public:
    virtual ~EventSource() = default;
    // Appends what is ready; not called again once it has said complete or failed.
    virtual StreamState take(std::vector<StreamEvent>& events) = 0;
    // The last event of a stream that the server cuts off. `error`: in the OpenAI API's form.
    virtual StreamEvent cut_off(const std::string& error) { return {.data = error}; }
};

// The form of errors, by the API that a route belongs to.
enum class ErrorForm { openai, anthropic };

class HttpTransaction {
  public:
    virtual ~HttpTransaction() = default;

    const HttpRequest& request() const { return request_; }

    // One of the two is called, once, from any thread.
    virtual void respond(HttpResponse response) = 0;
    virtual void stream(std::shared_ptr<EventSource> source) = 0;

    // From any thread: the source has news.
    virtual void wake() = 0;

    // Runs on the I/O thread, at most once, when the response is no longer wanted; at once when
    // that is so already.
    virtual void on_disconnect(std::function<void(DisconnectReason)> gone) = 0;

    // Chosen by the client or made here, and unique then.
    std::string request_id;
    // The name of the API key that the server itself acts for, where no client sent the request:
    // of a line of a batch. Empty: of none.
    std::optional<std::string> acting_key = {};
    // Of every error response. Set before respond().
    ErrorForm error_form = ErrorForm::openai;
    // Headers of every response. Set before respond() or stream().
    std::vector<HttpHeader> response_headers;
    RequestNotes notes;

  protected:
    HttpRequest request_;
};

}  // namespace nvllm::server
