// Responses to /v1/messages: a message of blocks, whole or as events.
#pragma once

#include <string>

#include "lib/server/anthropic/message_types.h"
#include "lib/server/requests/response_writer.h"

namespace nvllm::server::anthropic {

class MessageWriter final : public ResponseWriter {
  public:
    MessageWriter(const GenerationRequest& request, std::string id, std::string model);
    static std::unique_ptr<ResponseWriter> make(const GenerationRequest& request,
                                                const HostedModel& model,
                                                const HttpTransaction& transaction);

    const std::string& id() const override { return id_; }
    std::string whole(std::vector<ChoiceNews> choices, const Usage& usage) override;
    void begin(const Usage& usage, StreamEvents& events) override;
    void news(ChoiceNews news, const Usage& usage, StreamEvents& events) override;
    void end(const Usage& usage, StreamEvents& events) override;
    void failure(const ApiError& error, StreamEvents& events) override;

  private:
    enum class BlockKind { none, thinking, text, tool };

    // A message without content yet.
    Message message(const Usage& usage) const;
    void open(BlockKind kind, Block block, StreamEvents& events);
    void close(StreamEvents& events);
    void think(std::string_view text, StreamEvents& events);
    void call(const ToolCallDelta& call, StreamEvents& events);

    const GenerationRequest& request_;
    const std::string id_;
    const std::string model_;
    // Of the stream.
    BlockKind open_ = BlockKind::none;
    size_t num_blocks_ = 0;
    std::string thought_;  // of the block that is open
    Stop stop_;
};

}  // namespace nvllm::server::anthropic
