// The folder in which a run keeps what it has done until its output is whole, and from which an
// interrupted run goes on.
//
// It lies beside the output (OUT.partial), so that the output can take its place by one rename.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lib/base/file.h"

namespace nvllm::quantize {

// What becomes of an interrupted run that is kept there.
enum class InterruptedRun : uint8_t { refused, resumed, discarded };

class Journal {
  public:
    // Begins, or goes on with, the run whose output is to be `output`. `identity`: everything that
    // decides over the result, a JSON object. Throws cannot_create when the output is there
    // already, an interrupted run is and is refused, another one is at work, or something else is
    // where work would be kept; bad_data that says what differs when that run was another one; io.
    Journal(const std::filesystem::path& output, const std::string& identity,
            InterruptedRun interrupted);
    // Cleans up behind a run that was ended after its output had appeared; false: there is none.
    static bool finish_published(const std::filesystem::path& output, const std::string& identity);

    // Where block number `stage` is kept; is there once it is whole.
    std::filesystem::path block_file(int32_t stage) const;
    bool has_block(int32_t stage) const;
    // The folder that becomes the output: empty.
    std::filesystem::path fresh_output_folder() const;
    const std::filesystem::path& folder() const { return folder_; }
    // Makes the output appear and removes everything else. Throws io, cannot_create.
    void publish() const;

  private:
    std::filesystem::path output_;
    std::filesystem::path folder_;
    FolderLock lock_;
};

}  // namespace nvllm::quantize
