"""Random models for torch_steps.py. A family is a function from a random.Random to a model and a
function from the batch to its inputs and its target; a target of None says that the module returns
the loss. A model may carry `what`, the parts that it was made of, for the line that tells what
differs."""
from torch_models import applied, architectures, frontier, further, fusion, language, losses, named, operators, published, ranking, recurrences, sciences, signals, vision

FAMILIES = {**vision.FAMILIES, **language.FAMILIES, **losses.FAMILIES, **named.FAMILIES, **operators.FAMILIES,
            **architectures.FAMILIES, **published.FAMILIES, **recurrences.FAMILIES, **further.FAMILIES, **applied.FAMILIES, **frontier.FAMILIES,
            **sciences.FAMILIES, **signals.FAMILIES, **ranking.FAMILIES, **fusion.FAMILIES}
