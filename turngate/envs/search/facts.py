"""The evidence of ``turngate/Search-v1``."""

from turngate.envs.glossary import meanings

EVIDENCE = {
    **meanings(
        "repeated",
        "n_documents",
        "step_search",
        "distance",
        "answered",
        "correct",
        "token_f1",
        "gold",
        "stated_confidence",
        "cited",
        "gold_chunks",
        "key_score",
    ),
    "query_new": "1 less the largest share of words that the query has in common with an earlier one",
    "passages_written": "number of passages that the agent wrote for itself",
    "search_failed": "recorded where it happens: the search engine did not answer",
    "new_passages": "share of the passages of the turn that were not seen before",
    "new_gold": "share of the documents needed that the turn found first; only where they are known",
    "path_progress": "share of the path to the answer that the turn went on; only where it is known",
    "answer_shown": "whether the answer stands in what the turn showed of documents that count",
    "answerable": "whether the documents hold the answer",
    "abstained": "whether the agent said that it does not know",
    "truthful": "1 for a right answer, 0 for holding back, −1 for a wrong one",
    "closed_book": "recorded where it is so: the question is asked without documents",
    "looked_at": "documents of the path that a search of their own showed, or that were opened after a search showed "
    "them, and in which turn; only where they hold no answer",
    "near_answer": "how near a wrong answer lies to the right one on the path; only where it is known",
    "citation_precision": "share of the citations that support the answer",
    "citation_recall": "share of what supports the answer that was cited",
    "citation_f1": "the harmonic mean of the two",
}
