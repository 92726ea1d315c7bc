"""The page: every control has a label, every panel a sentence, every name a control."""

from dash import dcc, html

from ridgeformer.views.explorer.layout import INPUTS, page


def parts(component):
    yield component
    children = getattr(component, "children", None)  # an empty component counts as False
    children = [] if children is None else children
    for child in children if isinstance(children, list | tuple) else [children]:
        if hasattr(child, "to_plotly_json"):
            yield from parts(child)


PARTS = list(parts(page()))
IDS = [part.id for part in PARTS if getattr(part, "id", None)]


def test_every_choice_has_its_control_once():
    assert all(IDS.count(name) == 1 for name in INPUTS)
    assert len(IDS) == len({str(one) for one in IDS})


def test_every_input_is_labelled():
    labelled = {part.htmlFor for part in PARTS if isinstance(part, html.Label)}
    inputs = {part.id for part in PARTS if isinstance(part, dcc.Input)}
    assert inputs == labelled
    for field in (part for part in PARTS if isinstance(part, html.Fieldset)):
        assert any(isinstance(child, html.Legend) for child in parts(field))
    groups = [part for part in PARTS if isinstance(part, dcc.RadioItems)]
    fields = [part for part in PARTS if isinstance(part, html.Fieldset)]
    assert all(any(group in list(parts(field)) for field in fields) for group in groups)


def test_every_plot_has_a_title_and_a_sentence():
    plots = [part.id for part in PARTS if isinstance(part, dcc.Graph)]
    assert len(plots) == 7
    for name in plots:
        assert {f"{name}-title", f"{name}-says"} <= set(map(str, IDS))
    described = [getattr(part, "aria-labelledby", "") for part in PARTS if isinstance(part, html.Div)]
    assert all(any(f"{name}-says" in text for text in described) for name in plots)
