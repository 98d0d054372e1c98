"""Which values of the language a run-time region leaves as they are, and what their slices hand on."""

import flydsl.compiler as flyc
import flydsl.expr as fx


def test_values_of_the_language_are_handles():
    """What a run-time region cannot change is not carried through it; the folders of the classes must not matter."""
    from flydsl.expr.control.carried import is_handle
    from flydsl.expr.control.control_flow import RECEIVED

    atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
    copy = fx.make_tiled_copy(
        fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), fx.make_layout((4, 2), (2, 1)), (8, 1)
    )
    for value in (fx.Int32(1), fx.make_layout(4, 1), atom, mma, mma.get_slice(0), copy, copy.get_slice(0)):
        assert is_handle(value, RECEIVED), value
    assert not is_handle([fx.Int32(1)], RECEIVED)


def test_the_slice_of_a_tiled_product_gives_its_run_time_thread():
    def counts(tid):
        atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
        mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
        return len(mma.get_slice(tid).__extract_to_ir_values__()), len(mma.get_slice(3).__extract_to_ir_values__())

    assert flyc.evaluate(counts, 1) == (1, 0)
