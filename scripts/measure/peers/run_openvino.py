"""OpenVINO GenAI on the CPU; --converted is the folder that optimum-cli wrote. Requests share steps by its continuous batching."""

import numpy
import openvino
import openvino_genai

from peer_script import arguments, report


def config(count):
    made = openvino_genai.GenerationConfig()
    made.max_new_tokens, made.min_new_tokens, made.ignore_eos, made.do_sample = count, count, True, False
    return made


def tensor(ids):
    return openvino.Tensor(numpy.array([ids], dtype=numpy.int64))


def batched(pipeline, requests):
    answers = pipeline.generate([tensor(ids) for ids, _ in requests], [config(count) for _, count in requests])
    return sum(len(answer.m_generation_ids[0]) for answer in answers)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--precision", default="bf16", help="of the arithmetic")
    parser.add_argument("--cache-gb", type=int, default=4)
    options = parser.parse_args()
    properties = {"INFERENCE_NUM_THREADS": options.threads, "INFERENCE_PRECISION_HINT": options.precision,
                  "PERFORMANCE_HINT": "THROUGHPUT" if options.requests else "LATENCY", "NUM_STREAMS": 1}
    if options.requests:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_seqs, scheduler.enable_prefix_caching = options.cache_gb, 256, False
        pipeline = openvino_genai.ContinuousBatchingPipeline(options.converted, scheduler, "CPU", properties)
        report(options, lambda requests: batched(pipeline, requests))
        return
    pipeline = openvino_genai.LLMPipeline(options.converted, "CPU", **properties)
    report(options, lambda requests: sum(len(pipeline.generate(tensor(ids), config(count)).tokens[0]) for ids, count in requests))


if __name__ == "__main__":
    main()
