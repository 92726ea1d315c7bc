from math import log10

import plotly.graph_objects as go
import pytest

from ridgeformer.views.figures import MOST_TICKS, log_axis, styled


@pytest.mark.parametrize("lowest", [1e-1, 1e-5, 1e-9, 1e-16])
def test_a_logarithmic_axis_has_few_ticks(lowest):
    step = log_axis("x", [1.0, 0.0], [lowest])["dtick"]
    assert step >= 1
    decades = -round(log10(lowest))
    assert decades / step <= MOST_TICKS


def test_nothing_to_show_is_no_error():
    assert log_axis("x")["dtick"] == 1


def test_the_dress_leaves_the_numbers_alone():
    figure = styled(go.Figure(go.Scatter(y=[1, 2])))
    assert list(figure.data[0].y) == [1, 2]
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
