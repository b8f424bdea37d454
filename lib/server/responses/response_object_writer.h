// Responses to /v1/responses: items, whole or as numbered events. What is to be kept goes to the
// store once it is whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/server/requests/response_writer.h"
#include "lib/server/responses/response_object.h"
#include "lib/server/responses/response_request.h"
#include "lib/server/responses/response_store.h"

namespace nvllm::server {

class ResponseObjectWriter final : public ResponseWriter {
  public:
    struct Head {
        std::string id;  // of the response, without "resp_"
        std::string model;
        std::string owner;  // of what is stored
    };
    // `store` outlives the writer.
    ResponseObjectWriter(const GenerationRequest& request, ResponseSettings settings, Head head,
                         ResponseStore& store);

    const std::string& id() const override { return id_; }
    std::string whole(std::vector<ChoiceNews> choices, const Usage& usage) override;
    void begin(const Usage& usage, StreamEvents& events) override;
    void news(ChoiceNews news, const Usage& usage, StreamEvents& events) override;
    void end(const Usage& usage, StreamEvents& events) override;
    void failure(const ApiError& error, StreamEvents& events) override;

  private:
    enum class Kind { reasoning, message, call };
    struct Item {
        Kind kind;
        std::string id;
        std::string text = {};  // of a call its arguments
        std::string call_id = {};
        std::string name = {};
        bool is_done = false;
    };

    Item& add_item(Kind kind);
    responses::OutputItem shown(const Item& item) const;
    responses::OutputPart part_of(const Item& item) const;
    std::string response_json(std::string_view status, const Usage* usage,
                              const ApiError* error) const;
    std::string_view last_status() const;
    std::string last_json(const Usage& usage) const {
        return response_json(last_status(), &usage, {});
    }
    void keep(const std::string& body);
    // The answer as a message of a chat.
    std::string answer() const;

    responses::ResponseEvent event(const char* type);
    responses::ResponseEvent event_of_item(const char* type);
    static void add(const responses::ResponseEvent& event, StreamEvents& events);
    void say_state(const char* type, std::string_view status, StreamEvents& events);
    // The item that text of this kind belongs to, which may be a new one.
    Item& open(Kind kind, StreamEvents& events);
    void begin_item(StreamEvents& events);
    void close(StreamEvents& events);
    void write_text(Kind kind, const std::string& text, StreamEvents& events);
    void write_call(const ToolCallDelta& call, StreamEvents& events);

    const GenerationRequest& request_;
    const ResponseSettings settings_;
    const Head head_;
    const std::string id_;
    const int64_t created_;
    ResponseStore& store_;
    std::vector<Item> items_;
    std::optional<FinishReason> finish_reason_;
    int64_t num_events_ = 0;
};

}  // namespace nvllm::server
