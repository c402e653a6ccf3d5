"""What a file that says how to ask Slurm for a job may hold."""

import pytest

from prisma_lib import slurm
from prisma_lib.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partition: gpu", "unknown key 'partition': known are account"),
        ("cores: x", "cores='x': give a whole number, such as cores=1"),
        ("cores: 0", "cores=0: give a whole number of at least 1"),
        ("cores: 1.5", "cores=1.5: give a whole number"),
        (
            "memory: lots",
            "memory='lots': give a size with its unit, such as memory=8GB",
        ),
        ("memory: 32", "memory=32: give text, such as memory='8GB'"),
        ('memory: "32"', "memory='32': give a size with its unit"),
        ("memory: 0GB", "memory='0GB': give a size"),
        ("walltime: 5 parsecs", "walltime='5 parsecs': give minutes, HH:MM:SS or D-HH"),
        ("walltime: -5", "walltime=-5: give minutes"),
        ("walltime: 1:2:3:4", "walltime='1:2:3:4': give minutes"),
        ("walltime: 1.5", "walltime=1.5: give text or a whole number"),
        ("walltime: true", "walltime=True: give text or a whole number"),
        ("gpus: -1", "gpus=-1: give a whole number of at least 0, such as gpus=1"),
        ("gpus: true", "gpus=True: give a whole number"),
        ("gpus:", "gpus=None: give a whole number"),
        ("job_cpu: 0", "job_cpu=0: give a whole number of at least 1"),
        ("job_mem: much", "job_mem='much': give megabytes, or a size"),
        ("queue: [gpu]", "queue=['gpu']: give text"),
        ("account: 7", "account=7: give text"),
        ('queue: ""', "queue='': give text without blanks"),
        ("job_name: my job", "job_name='my job': give text without blanks"),
        ("local_directory: {a: 1}", "local_directory={'a': 1}: give text"),
        ("job_extra_directives: --x", "job_extra_directives='--x': give a list of tex"),
        ("job_script_prologue: [1]", "job_script_prologue=[1]: give a list of texts"),
        ("job_directives_skip: -t", "job_directives_skip='-t': give a list of texts"),
        ("interface: none9", "unknown interface 'none9': known are "),
    ],
)
def test_file_with_a_value_that_makes_no_sense_is_refused(tmp_path, text, message):
    path = tmp_path / "slurm.yaml"
    path.write_text(f"{text}\n")

    with pytest.raises(ConfigError) as caught:
        slurm.read(path)

    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("{}", {"cores": 1, "memory": "8GB", "job_name": "prisma"}),
        ("walltime: 30", {"walltime": 30}),
        ("walltime: 1-12", {"walltime": "1-12"}),
        ("walltime: 1-12:30:00", {"walltime": "1-12:30:00"}),
        ("memory: 1.5 GiB", {"memory": "1.5 GiB"}),
        ("job_mem: 4000", {"job_mem": 4000}),
        ("gpus: 0", {}),
        ("gpus: 1", {"job_extra_directives": ("--gres=gpu:1",)}),
    ],
)
def test_what_slurm_knows_is_passed_on(tmp_path, text, options):
    path = tmp_path / "slurm.yaml"
    path.write_text(f"{text}\n")
    usual = {"cores": 1, "memory": "8GB", "job_name": "prisma"}

    assert slurm.read(path).options() == usual | options
