"""``turngate/Search-v1``: answer a question by searching documents, and say which passages support the answer.

``passages`` documents and the passages that they are cut into · ``readers`` files of documents · ``corpora`` where
documents come from, as a config names it · ``retrievers`` how passages are found: ``bm25``, ``tantivy_index``,
``dense``, ``remote`` and ``over_http`` · ``index_cache`` documents and retriever, opened once per process · ``graphs``
links between documents, of a made-up ``world`` or of ``linked_rows``, and ``generate`` the questions along them ·
``known_questions`` questions from files · ``retrieval_facts`` what a turn found · ``env`` the environment itself.
"""
