"""What must hold for every family: one suite that any adapter is run through.

`CHECKS` are functions of a `Case`, each an assertion about the backbone contract. `test_conformance.py` runs
them on every family's tiny checkpoint, and shows that broken adapters fail them.
"""

from collections.abc import Callable

from tests.backbones.conformance import law, sessions, tokens, weights
from tests.backbones.conformance.case import Case

CHECKS: tuple[Callable[[Case], None], ...] = (
    law.facts_are_consistent,
    law.logits_are_plain,
    law.states_are_pre_norm,
    law.rows_end_as_written_out,
    law.conditional_rows_come_first,
    law.empty_prompts_are_refused,
    sessions.block_equals_step,
    sessions.states_equal_steps,
    sessions.states_leave_the_session_alone,
    sessions.rollback_is_exact,
    sessions.any_length_can_be_kept,
    sessions.a_new_session_forgets,
    sessions.batch_equals_single,
    sessions.trees_reduce_to_raster_order,
    tokens.nothing_but_whole_images_of_codes,
    tokens.the_grid_is_all_there_is,
    tokens.embeddings_are_what_is_fed,
    tokens.codebook_has_a_vector_a_code,
    tokens.pixels_lie_where_their_tokens_do,
    weights.fingerprint_is_the_same_in_another_process,
    weights.every_weight_is_in_the_fingerprint,
    weights.nothing_trains,
    weights.low_precision_spares_the_pixels,
    weights.moving_closes_the_session,
)

__all__ = ["CHECKS", "Case"]
