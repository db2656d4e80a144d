"""Packages epg_tf; versions are pinned in constraints.txt."""

from setuptools import find_packages, setup

setup(
    name="epg_tf",
    version="0.1.0",
    description="Learned loss functions for reinforcement learning: Evolved Policy Gradients and "
    "MetaGenRL",
    long_description=open("README.md", encoding="utf-8").read(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.12",
    # Installed, the folders launch and configs lie in the package, so that nothing else takes a
    # name on the import path.
    packages=[*find_packages(include=["epg_tf", "epg_tf.*"]), "epg_tf.configs", "epg_tf.launch"],
    package_dir={"epg_tf": "epg_tf", "epg_tf.configs": "configs", "epg_tf.launch": "launch"},
    package_data={
        "epg_tf.tasks": ["assets/*.xml"],
        "epg_tf": ["__init__.pyi", "py.typed", "pretrained/*/*", "pretrained/*/*/*"],
    },
    entry_points={"console_scripts": ["epg-tf=epg_tf.launch.__main__:main"]},
    install_requires=[
        "absl-py",
        "gym-notices",  # of the Gym that TF-Agents installs; see epg_tf/core/notices.py
        "gymnasium>=1.3",
        # Only its Fetch model is used: its environments do not run on MuJoCo >= 3.17.
        "gymnasium-robotics==1.4.*",
        "lazy-loader>=0.4",
        "matplotlib",
        "ml_collections",
        "mujoco>=3.17",
        "numpy<2",
        "scipy",
        "tensorflow==2.15.*",
        "tensorflow-probability==0.23.*",
        "tf-agents==0.19.*",
        "tqdm",
    ],
    extras_require={
        "docs": ["furo", "myst-parser", "sphinx", "sphinx-autoapi"],
        # Compiled from source against the TensorFlow that is installed: see docs/many_machines.md.
        "horovod": ["horovod==0.28.1"],
        # gymnasium[box2d] would also install pygame-ce, which overwrites TF-Agents' pygame.
        "lunar": ["box2d==2.3.10"],
        # With a later typing-extensions, which a later IPython needs, agents cannot be saved.
        "notebook": ["ipykernel", "ipython<8.22", "typing-extensions==4.5.0"],
        "video": ["imageio-ffmpeg"],  # for `epg-tf render --output=film.mp4`
        "test": ["box2d==2.3.10", "hypothesis", "pytest", "pytest-xdist", "wheel"],
    },
)
